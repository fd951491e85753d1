"""Find the sub-agent definitions of the user, of plug-ins and of the project, and give each a unique name. A
project's definition gives instructions and rights to a model, so it is inert until the user has agreed to its
exact content."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from agent_cli.protocol.agent_types import AgentType

from ..expansion import filled
from ..found_files import MOST_FILES, UnusableError, found_files, read_file, read_text
from ..places import Place, unique_name

PLACE = "sub-agent in "
"""Prefix of a file path in a trust place; for skills a suffix is used."""


class AgentFile(msgspec.Struct, frozen=True):
    """A definition file in its current state."""

    path: str
    place: Place
    content: bytes = b""
    type: AgentType | None = None
    """None if the file cannot be used."""
    notes: tuple[str, ...] = ()
    problem: str = ""
    """Why it cannot be used."""

    @property
    def name(self) -> str:
        """The name by which it is started; empty if it cannot be used."""
        return self.type.name if self.type else ""

    @property
    def trust_place(self) -> str:
        """The place under which the user's consent to its content is stored."""
        return f"{PLACE}{self.path}"


class FoundAgents(msgspec.Struct, frozen=True):
    """The definition files found."""

    usable: tuple[AgentFile, ...] = ()
    inert: tuple[AgentFile, ...] = ()
    """Files of the project that are not trusted."""
    broken: tuple[AgentFile, ...] = ()

    @property
    def types(self) -> tuple[AgentType, ...]:
        """The sub-agent types that can be started, by name."""
        return tuple(sorted((each.type for each in self.usable if each.type), key=lambda found: found.name))

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Files that are left out, or in which something is wrong or has no effect, each with the reason."""
        problems = [(file.path, file.problem) for file in self.broken]
        return (*problems, *((file.path, note) for file in self.usable for note in file.notes))


def find_agents(places: Sequence[Place], trusts: Callable[[AgentFile], bool]) -> FoundAgents:
    """Return the definitions in some folders; their order decides which of several with the same name keeps it.

    Args:
        places: the folders, the user's first.
        trusts: returns True if the user wrote a file, or has agreed to it in its current state.
    """
    usable: dict[str, AgentFile] = {}
    inert, broken = [], []
    for place in places:
        for file in agent_files(place):
            if file.type is None:
                broken.append(file)
            elif not trusts(file):
                inert.append(file)
            else:
                name = unique_name(file.type.name, place, usable.__contains__)
                usable[name] = _named(file, file.type, name)
    return FoundAgents(tuple(usable.values()), tuple(inert), tuple(broken))


def _named(file: AgentFile, found: AgentType, name: str) -> AgentFile:
    if name == found.name:
        return file
    other = () if file.place.plugin else (f"another sub-agent is named {found.name}; this one is {name}",)
    return msgspec.structs.replace(
        file, type=msgspec.structs.replace(found, name=name), notes=(*file.notes, *other)
    )


def agent_files(place: Place) -> Iterator[AgentFile]:
    """Yield the definition files in and below a folder, by name."""
    suffix = ".toml" if place.product == "codex" else ".md"
    for count, (_, path) in enumerate(found_files(place, suffix)):
        if count == MOST_FILES:
            too_many = f"there are more than {MOST_FILES} files; the rest is left out"
            yield AgentFile(str(place.folder), place, problem=too_many)
            return
        yield _file(path, place)


def _file(path: Path, place: Place) -> AgentFile:
    from .parse import parse_agent

    shown = str(path).encode("utf-8", "replace").decode()
    try:
        content = read_file(path, place)
        found, notes = parse_agent(read_text(content), path, place)
        found = msgspec.structs.replace(found, instructions=filled(found.instructions, place.variables))
    except UnusableError as error:
        return AgentFile(shown, place, problem=str(error))
    return AgentFile(shown, place, content, found, notes)
