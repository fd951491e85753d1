"""`/mcp`: the MCP servers, their state, and what can be done about it."""

from collections.abc import Iterable
from typing import Literal, cast

from ..services import ServerLine
from ..text import lines
from ..text.theme import Role, Theme
from .api import CommandContext

_CHANGES = ("restart", "on", "off")
_HOW = "Add one with `agent mcp add NAME COMMAND`, or under `mcp_servers` (agent help mcp)."
_ROLES: dict[str, Role] = {
    "ready": "ok", "failed": "error", "broken": "error", "login needed": "warning", "untrusted": "warning",
}  # fmt: skip


async def mcp(context: CommandContext, argument: str) -> None:
    """`/mcp [NAME | restart NAME | on NAME | off NAME]`: list the MCP servers, show one, or change one."""
    servers, notes = context.host.servers()
    word, _, rest = argument.strip().partition(" ")
    if word in _CHANGES:
        change = cast(Literal["restart", "on", "off"], word)
        context.say(await _changed(context, servers, change, rest.strip()))
    elif word:
        found = next((each for each in servers if each.name == argument.strip()), None)
        context.say(_details(found, context.theme) if found else _unknown(argument.strip(), servers))
    elif not servers and not notes:
        context.say(f"No MCP server is configured. {_HOW}")
    else:
        context.say("\n".join((*_rows(servers, context.theme, context.columns), *map(lines.one_line, notes))))


def names(context: CommandContext) -> Iterable[str]:
    """Offer the servers, and what can be done with them."""
    found = [each.name for each in context.host.servers()[0]]
    return (*found, *(f"{change} {name}" for change in _CHANGES for name in found))


async def _changed(
    context: CommandContext, servers: tuple[ServerLine, ...], change: Literal["restart", "on", "off"], name: str
) -> str:
    found = next((each for each in servers if each.name == name), None)
    if found is None:
        return _unknown(name, servers)
    if found.state == "untrusted":
        return f"{_word(name)} is not trusted. Start a new session to be asked about it."
    return lines.one_line(await context.host.change_server(name, change), 400)


def _rows(servers: tuple[ServerLine, ...], theme: Theme, columns: int) -> list[str]:
    width = max((len(_word(each.name)) for each in servers), default=0)
    rows = []
    for each in servers:
        state = theme.paint(_ROLES.get(each.state, "muted"), f"{each.state:<12}")
        size = f"{len(each.tools)} tools, {each.tokens} tokens" if each.tools else ""
        about = each.error if each.error and each.state != "ready" else lines.one_line(each.address, 60)
        room = columns - width - len(size) - 20
        shown = f"  {_word(each.name):<{width}}  {state}  {size}{'  ' * bool(size)}"
        rows.append(shown + theme.paint("muted", lines.one_line(about, max(room, 12))))
    return rows


def _details(server: ServerLine, theme: Theme) -> str:
    facts = {
        "state": server.state,
        "error": server.error,
        "address": server.address,
        "defined in": server.source,
        "server": server.server,
        "tools": ", ".join(server.tools),
        "prompts": ", ".join(server.prompts),
    }
    rows = [theme.paint("strong", _word(server.name))]
    rows += [f"  {name}: {lines.one_line(value, 2_000)}" for name, value in facts.items() if value]
    if server.log:
        rows += ["  last words on stderr:", *(f"    {lines.one_line(line, 200)}" for line in server.log[-8:])]
    return "\n".join(rows)


def _unknown(name: str, servers: tuple[ServerLine, ...]) -> str:
    known = ", ".join(_word(each.name) for each in servers)
    named = f"There is no MCP server named {_word(name)}." if name else "Name a server."
    return f"{named} {f'The servers are: {known}.' if known else _HOW}"


def _word(text: str) -> str:
    return lines.one_line(text, 40)
