"""The slash commands that the user and the project have written, and the prompts of MCP servers: which there are,
and which the user has agreed to. Text of others would be sent in the user's name, so each is shown and asked about
once, and again when it has changed."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_cli.config.layer import ConfigError
from agent_cli.tools.kit.base import ToolError
from agent_cli.ui.services import OwnCommand, OwnPrompt

from ..setup.setup import Setup
from .custom_command_files import CommandFile, command_files

if TYPE_CHECKING:
    from agent_cli.mcp.documents import ServerDocuments

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


def server_commands(documents: "ServerDocuments") -> Iterator[OwnCommand]:
    """Yield the prompts of MCP servers."""
    from agent_cli.mcp.documents import usage

    for name, prompt in documents.prompts():
        yield OwnCommand(name, prompt.description, usage(prompt), _place_of(name))


async def server_prompt(
    setup: Setup, documents: "ServerDocuments", name: str, words: Sequence[str]
) -> OwnPrompt | None:
    """Fetch a prompt of an MCP server; None where there is none of that name. It is the server's text, so that it
    is shown and asked about as a project's is."""
    try:
        text = await documents.prompt(name, words)
    except ToolError as error:
        return OwnPrompt("", _place_of(name), agreed=False, problem=str(error))
    if text is None:
        return None
    prompt = OwnPrompt(text, _place_of(name), agreed=False, source="server")
    try:
        return msgspec.structs.replace(prompt, agreed=setup.trust.knows(*_as_one(prompt)))
    except ConfigError as error:
        return msgspec.structs.replace(prompt, problem=str(error))


def _place_of(name: str) -> str:
    return f"MCP server {name.partition(':')[0]}, prompt {name.partition(':')[2]}"


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
