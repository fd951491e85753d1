"""The slash commands that the user and the project have written: which there are, and which of the project's the
user has agreed to. A project's text would be sent in the user's name, so each is shown and asked about once, and
again when it has changed."""

import msgspec

from agent_cli.config.layer import ConfigError
from agent_cli.ui.services import OwnCommand, OwnPrompt

from ..setup.setup import Setup
from .custom_command_files import CommandFile, command_files

FOLDER = "commands"
_PROJECT = ".agent"


def own_commands(setup: Setup) -> tuple[OwnCommand, ...]:
    """Return all of them, the user's first; of two with one name the first counts."""
    lines: list[OwnCommand] = []
    taken: dict[str, str] = {}
    for file in _files(setup):
        line = OwnCommand(file.name, file.description, file.hint, _shown(setup, file), file.problem)
        if file.name and not file.problem:
            if first := taken.get(file.name):
                line = msgspec.structs.replace(line, problem=f"{first} has the same name")
            taken.setdefault(file.name, line.place)
        lines.append(line)
    return tuple(lines)


def own_prompt(setup: Setup, name: str) -> OwnPrompt | None:
    """Return what a command stands for now; a file that cannot be used only counts where no other has its name."""
    found = [file for file in _files(setup) if file.name == name]
    file = next((each for each in found if not each.problem), found[0] if found else None)
    if file is None:
        return None
    prompt = OwnPrompt(file.text, file.path, agreed=True, problem=file.problem)
    if file.problem or not _is_of_project(setup, file):
        return prompt
    try:
        return msgspec.structs.replace(prompt, agreed=setup.trust.knows(*_as_one(prompt)))
    except ConfigError as error:
        return msgspec.structs.replace(prompt, agreed=False, problem=str(error))


def agree(setup: Setup, prompt: OwnPrompt) -> None:
    """Remember that the user agreed to this very text in this place.

    Raises:
        ConfigError: it could not be saved.
    """
    setup.trust.remember(*_as_one(prompt))


def _as_one(prompt: OwnPrompt) -> tuple[str, bytes]:
    return prompt.place, prompt.text.encode("utf-8")


def _files(setup: Setup) -> list[CommandFile]:
    own = command_files(setup.config_dir / FOLDER, follows_links=True)
    return [*own, *command_files(setup.workspace.root / _PROJECT / FOLDER, follows_links=False)]


def _is_of_project(setup: Setup, file: CommandFile) -> bool:
    return not file.path.startswith(f"{setup.config_dir / FOLDER}/")


def _shown(setup: Setup, file: CommandFile) -> str:
    """Return a project's file from the root on."""
    return file.path.removeprefix(f"{setup.workspace.root}/") if _is_of_project(setup, file) else file.path
