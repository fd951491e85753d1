"""`/mcp`, `/hooks`, `/skills` and `/plugins`: list and control the extensions that the user has added."""

import asyncio
from collections.abc import Iterable
from typing import Literal, cast

from agent_cli.protocol.client import ServerStatus

from ..services import HookLine, PluginLine, SkillLine
from ..text import lines
from ..text.theme import Role, Theme
from .api import CommandContext

_CHANGES = ("restart", "on", "off")
_HOW = "Add one with `agent mcp add NAME COMMAND`, or under `mcp_servers` (agent help mcp)."
_HOW_HOOKS = "Define them under `hooks` in your configuration (agent help hooks)."
_HOW_SKILLS = "Put one into .agents/skills or ~/.agents/skills (agent help skills)."
_HOW_PLUGINS = "Add one with `agent plugin add SOURCE` (agent help plugins)."
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


def server_names(context: CommandContext) -> Iterable[str]:
    """Return completions: the names of the servers, alone and after each action."""
    found = [each.name for each in context.host.servers()[0]]
    return (*found, *(f"{change} {name}" for change in _CHANGES for name in found))


async def _changed(
    context: CommandContext, servers: tuple[ServerStatus, ...], change: Literal["restart", "on", "off"], name: str
) -> str:
    found = next((each for each in servers if each.name == name), None)
    if found is None:
        return _unknown(name, servers)
    if found.state == "untrusted":
        return f"{_word(name)} is not trusted. Start a new session to be asked about it."
    return lines.one_line(await context.host.change_server(name, change), 400)


def _rows(servers: tuple[ServerStatus, ...], theme: Theme, columns: int) -> list[str]:
    width = max((len(_word(each.name)) for each in servers), default=0)
    rows = []
    for each in servers:
        state = theme.paint(_ROLES.get(each.state, "muted"), f"{each.state:<12}")
        size = f"{len(each.tools)} tools, {each.tokens} tokens" if each.tools else ""
        about = each.error if each.error and each.state != "ready" else lines.one_line(each.address, 60)
        if each.state == "login needed":
            about = f"`agent mcp login {each.name}`, then `/mcp restart {each.name}`"
        room = columns - width - len(size) - 20
        shown = f"  {_word(each.name):<{width}}  {state}  {size}{'  ' * bool(size)}"
        rows.append(shown + theme.paint("muted", lines.one_line(about, max(room, 12))))
    return rows


def _details(server: ServerStatus, theme: Theme) -> str:
    facts = {
        "state": server.state,
        "error": server.error,
        "address": server.address,
        "defined in": server.source,
        "server": server.server,
        "tools": ", ".join(server.tools),
        "prompts": ", ".join(server.prompts),
    }
    rows = _with_facts(theme.paint("strong", _word(server.name)), facts)
    if server.log:
        rows += ["  last words on stderr:", *(f"    {lines.one_line(line, 200)}" for line in server.log[-8:])]
    return "\n".join(rows)


def _unknown(name: str, servers: tuple[ServerStatus, ...]) -> str:
    known = ", ".join(_word(each.name) for each in servers)
    named = f"There is no MCP server named {_word(name)}." if name else "Name a server."
    return f"{named} {f'The servers are: {known}.' if known else _HOW}"


def _word(text: str) -> str:
    return lines.one_line(text, 40)


async def hooks(context: CommandContext, argument: str) -> None:
    """`/hooks [on NAME | off NAME]`: list the hooks, or switch one on or off for this session."""
    found, notes = context.host.hooks()
    word, _, name = argument.strip().partition(" ")
    if word in ("on", "off") and name.strip():
        context.say(_turned(context, found, name.strip(), on=word == "on"))
    elif argument.strip():
        context.say("Write /hooks, /hooks on NAME or /hooks off NAME.")
    elif not found and not notes:
        context.say(f"No hook is in force. {_HOW_HOOKS}")
    else:
        rows = [row for hook in found for row in _hook_rows(hook, context.theme)]
        context.say("\n".join((*rows, *map(lines.one_line, notes))))


async def plugins(context: CommandContext, argument: str) -> None:
    """`/plugins`: list the plug-ins. They are managed from the shell."""
    found = context.host.plugins()
    if not found:
        context.say(f"No plug-in is installed. {_HOW_PLUGINS}")
        return
    context.say("\n".join(row for each in found for row in _plugin_rows(each, context.theme)))


def _plugin_rows(plugin: PluginLine, theme: Theme) -> list[str]:
    state = "" if plugin.state == "enabled" else theme.paint("warning", f" ({plugin.state})")
    brings = lines.one_line(", ".join(filter(None, (plugin.version, plugin.brings))), 100)
    rows = [f"  {theme.paint('strong', plugin.name)}{state}  {brings}"]
    rows += [theme.paint("error", f"    {lines.one_line(plugin.problem, 160)}")] if plugin.problem else []
    return [*rows, theme.paint("muted", f"    {lines.one_line(plugin.source, 100)}")]


def hook_names(context: CommandContext) -> Iterable[str]:
    """Return completions: `on` and `off` for each hook."""
    return (f"{word} {hook.name}" for word in ("off", "on") for hook in context.host.hooks()[0])


def _turned(context: CommandContext, found: tuple[HookLine, ...], name: str, *, on: bool) -> str:
    if not any(hook.name == name for hook in found):
        known = ", ".join(lines.one_line(hook.name, 60) for hook in found)
        return (
            f"There is no hook {lines.one_line(name, 60)}. {f'The hooks are: {known}.' if known else _HOW_HOOKS}"
        )
    context.host.turn_hook(name, on=on)
    return f"{lines.one_line(name, 60)} is {'on' if on else 'off'} for this session."


def _hook_rows(hook: HookLine, theme: Theme) -> list[str]:
    matched = f" for {lines.one_line(hook.matcher, 60)}" if hook.matcher else ""
    state = theme.paint("warning", " (off)") if hook.is_off else ""
    count = lines.number(hook.runs, "run")
    runs = f"{count}, last: {lines.one_line(hook.last, 160)}" if hook.runs else "not run yet"
    about = f", {lines.one_line(hook.about, 100)}" if hook.about else ""
    return [
        f"  {theme.paint('strong', lines.one_line(hook.name, 60))}{state}  {hook.event}{matched}{about}",
        theme.paint("muted", f"    {lines.one_line(hook.command, 100)}"),
        theme.paint("muted", f"    {lines.one_line(hook.source, 100)} · {runs}"),
    ]


async def skills(context: CommandContext, argument: str) -> None:
    """`/skills [NAME]`: list the skills, or show one."""
    found, notes = await asyncio.to_thread(context.host.skills)
    name = argument.strip().removeprefix("/")
    one = next((skill for skill in found if skill.name == name), None)
    if one is not None:
        facts = {"state": one.state, "from": one.origin, "file": one.place, "for": one.about}
        context.say("\n".join(_with_facts(context.theme.paint("strong", lines.one_line(one.name, 60)), facts)))
    elif name:
        context.say(f"There is no skill {_word(name)}. /skills lists them.")
    elif not found and not notes:
        context.say(f"There are no skills. {_HOW_SKILLS}")
    else:
        rows = [row for skill in found for row in _skill_rows(skill, context.theme, context.columns)]
        context.say("\n".join((*rows, *(f"  ! {lines.one_line(note, 300)}" for note in notes))))


def _skill_rows(skill: SkillLine, theme: Theme, columns: int) -> list[str]:
    state = theme.paint("warning", f" ({skill.state})") if skill.state != "on" else ""
    about = lines.one_line(skill.about, max(columns - 4, 12))
    return [
        f"  {theme.paint('strong', lines.one_line(skill.name, 60))}{state}  {about}",
        theme.paint("muted", f"    {lines.one_line(skill.origin, 40)} · {lines.one_line(skill.place, 160)}"),
    ]


def _with_facts(head: str, facts: dict[str, str]) -> list[str]:
    return [head, *(f"  {name}: {lines.one_line(value, 2_000)}" for name, value in facts.items() if value)]
