"""Slash commands defined by the user and the project, for this agent or for others, and prompts of MCP servers:
which exist, and which the user has approved. Text from others would be sent in the user's name, so each is shown
and approved once, and again after each change."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.layer import ConfigError
from agent_cli.extensions.command_files import CommandFile, command_files
from agent_cli.extensions.expansion import expand, with_variables
from agent_cli.extensions.places import unique_name
from agent_cli.policy.rules.foreign_rules import allow_rules
from agent_cli.protocol.operations import UserInput
from agent_cli.tools.kit.base import ToolError
from agent_cli.ui.commands.registry import is_built_in, parse
from agent_cli.ui.services import OwnCommand, OwnPrompt

if TYPE_CHECKING:
    from agent_cli.mcp.documents import ServerDocuments


def own_commands(setup: Setup) -> tuple[OwnCommand, ...]:
    """Return all custom commands, the user's first; the second of two with one name gets a name that tells its
    origin."""
    here = f"{setup.workspace.root}/"
    return tuple(
        OwnCommand(
            name,
            file.description,
            file.hint,
            file.path.removeprefix(here) if file.place.origin == "project" else file.path,
            file.problem,
        )
        for name, file in commands(setup)
    )


def own_prompt(setup: Setup, name: str, argument: str) -> OwnPrompt | None:
    """Return the current prompt of a command; None if there is none of this name."""
    known = list(commands(setup))
    file = next((file for each, file in known if each == name), None) or _of_owner(known, name)
    if file is None:
        return None
    variables = {"CLAUDE_PROJECT_DIR": str(setup.workspace.root), **file.place.variables}
    found = expand(file.text, argument, file.place.product, names=file.arguments, variables=variables)
    allowed = tuple(allow_rules(with_variables(each, variables) for each in file.allowed))
    shown = f"{file.text}\n\n(allowed until the turn ends: {', '.join(allowed)})" if allowed else file.text
    prompt = OwnPrompt(
        shown,
        file.path,
        agreed=True,
        problem=file.problem or setup.changed_plugin(file.place),
        input=UserInput(found.text, insertions=found.insertions, allowed=allowed),
    )
    if prompt.problem or not setup.is_of_project(file.place, file.path):
        return prompt
    return _as_agreed(setup, prompt)


def _of_owner(known: Sequence[tuple[str, CommandFile]], name: str) -> CommandFile | None:
    """Return the command of a name with its product or owner in front, whether it needs that or not. Codex calls
    its own `/prompts:NAME`."""
    owner, _, rest = name.partition(":")
    owner = "codex" if owner == "prompts" else owner
    files = (file for _, file in known if file.name == rest and not file.problem)
    return next((file for file in files if owner in (file.place.product, file.place.origin)), None)


def called_prompt(setup: Setup, line: str, *, by_end: bool = False) -> UserInput | None:
    """Return the input for a line that calls a command; None if no command has this name. With `by_end`, the line
    has the end of a name, such as `fix` for `git:fix`, which counts if no other name ends so.

    Raises:
        UsageError: the command cannot be used, or comes with the project and is not approved.
    """
    called = parse(line)
    if called is None:
        return None
    name, argument = called
    if by_end:
        ending = [known for known, file in commands(setup) if known.endswith(f":{name}") and not file.problem]
        if len(ending) != 1 or is_built_in(name):
            return None
        name = ending[0]
    prompt = own_prompt(setup, name, argument)
    return usable_input(prompt, name) if prompt is not None else None


def usable_input(prompt: OwnPrompt, name: str) -> UserInput:
    """Return the input of a command if nobody can be asked to approve it.

    Raises:
        UsageError: it cannot be used, or comes with the project and is not approved.
    """
    if prompt.problem:
        raise UsageError(f"/{name} cannot be used: {prompt.problem}")
    if not prompt.agreed:
        raise UsageError(
            f"/{name} comes with the project ({prompt.place}) and is not approved as it is now. Start `agent` and"
            f" type /{name} once to read and approve it."
        )
    return prompt.input


def commands(setup: Setup) -> Iterator[tuple[str, CommandFile]]:
    """Yield the command files with the names that call them; an unusable file has its own name, unless it is
    taken."""
    taken: set[str] = set()
    broken = []
    for place in setup.places_of("commands"):
        for file in command_files(place):
            if file.problem:
                broken.append(file)
                continue
            name = unique_name(file.name, place, lambda name: name in taken or is_built_in(name))
            taken.add(name)
            yield name, file
    yield from ((file.name if file.name not in taken else "", file) for file in broken)


def server_commands(documents: "ServerDocuments") -> Iterator[OwnCommand]:
    """Yield the prompts of MCP servers."""
    from agent_cli.mcp.documents import usage

    for name, prompt in documents.prompts():
        yield OwnCommand(name, prompt.description, usage(prompt), _place_of(name))


async def server_prompt(
    setup: Setup, documents: "ServerDocuments", name: str, words: Sequence[str]
) -> OwnPrompt | None:
    """Fetch a prompt of an MCP server; return None if there is none of this name. The text is the server's, so it
    needs approval like that of a project."""
    try:
        text = await documents.prompt(name, words)
    except ToolError as error:
        return OwnPrompt("", _place_of(name), agreed=False, problem=str(error))
    if text is None:
        return None
    prompt = OwnPrompt(text, _place_of(name), agreed=False, source="server", input=UserInput(text))
    return _as_agreed(setup, prompt)


def _place_of(name: str) -> str:
    return f"MCP server {name.partition(':')[0]}, prompt {name.partition(':')[2]}"


def agree(setup: Setup, prompt: OwnPrompt) -> None:
    """Record that the user approved this exact text in this place.

    Raises:
        ConfigError: it could not be saved.
    """
    setup.trust.remember(*_as_one(prompt))


def _as_agreed(setup: Setup, prompt: OwnPrompt) -> OwnPrompt:
    """Return a prompt of others, approved if the user has approved its present form."""
    try:
        return msgspec.structs.replace(prompt, agreed=setup.trust.knows(*_as_one(prompt)))
    except ConfigError as error:
        return msgspec.structs.replace(prompt, agreed=False, problem=str(error))


def _as_one(prompt: OwnPrompt) -> tuple[str, bytes]:
    return prompt.trust_place or prompt.place, prompt.text.encode("utf-8")
