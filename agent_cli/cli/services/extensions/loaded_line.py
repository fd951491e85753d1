"""A line about the extension files that a session has loaded, and about those not used."""

from collections.abc import Iterator

from agent_cli.bootstrap.session_builder import OpenSession
from agent_cli.bootstrap.setup import Setup
from agent_cli.protocol.sanitize import clean
from agent_cli.ui.text.lines import number

from .unused_files import unused_files

_MOST_NAMED = 4


def loaded_line(setup: Setup, opened: OpenSession) -> str:
    """Return the line; empty if there is nothing to report."""
    parts = [f"instructions: {opened.instructions}"] if opened.instructions else []
    if counts := ", ".join(_counts(setup, opened)):
        parts.append(counts if parts else f"loaded: {counts}")
    if unused := [str(path.relative_to(setup.workspace.root)) for path, _ in unused_files(setup.workspace.root)]:
        more = f" and {len(unused) - _MOST_NAMED} more" if len(unused) > _MOST_NAMED else ""
        named = ", ".join(unused[:_MOST_NAMED])
        parts.append(f"not used: {named}{more} (`agent doctor --files`)")
    return clean("; ".join(parts))


def _counts(setup: Setup, opened: OpenSession) -> Iterator[str]:
    counted = (
        (_commands(setup), "command"),
        (_skills(setup), "skill"),
        (_agents(setup), "sub-agent"),
        (_tools(setup, opened), "custom tool"),
        (len(opened.hooks.hooks) if opened.hooks else 0, "hook"),
        (len(opened.servers.connections) if opened.servers else 0, "MCP server"),
    )
    yield from (number(count, noun) for count, noun in counted if count)


def _commands(setup: Setup) -> int:
    if not (places := setup.places_of("commands")):
        return 0
    from agent_cli.extensions.command_files import count_commands

    return sum(map(count_commands, places))


def _agents(setup: Setup) -> int:
    if not setup.places_of("agents"):
        return 0
    from agent_cli.bootstrap.agents import agent_types

    return len(agent_types(setup))


def _tools(setup: Setup, opened: OpenSession) -> int:
    if not (setup.tool_sources or setup.config.tools.plugins):
        return 0
    from agent_cli.tools.plugins import Extension

    return sum(isinstance(tool, Extension) for tool in opened.tools.tools)


def _skills(setup: Setup) -> int:
    if not setup.skill_places():
        return 0
    from agent_cli.bootstrap.skills import skill_library

    return skill_library(setup).count
