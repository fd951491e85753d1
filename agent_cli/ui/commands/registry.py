"""The table of slash commands: it drives completion, `/help` and dispatch.

A command that is neither in the table nor defined in a file is never sent to the model; the nearest names are
shown instead. Only a first word like `/name` counts as a command, so a prompt may begin with a path. An
unambiguous prefix of a name stands for it. Each command is implemented in the module of its group, which is
imported on first use.
"""

import asyncio
import importlib
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, get_args

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.usage import EFFORTS

from ..services import OwnCommand
from ..text import lines
from .api import Command, CommandContext, Group

_PART = r"[\w-]+(?:\.[\w-]+)*"
_NAME = rf"(?=(?:\d+[-_])*\d*[^\W\d_]){_PART}(?::{_PART})*"
_COMMAND = lazy_regex(rf"/(\?|{_NAME})(?:\s+(.*))?$", re.DOTALL)
_SKILL = lazy_regex(rf"\$({_NAME})(?:\s+(.*))?$", re.DOTALL)

_NOTE = lazy_regex(r"#(?![#!])[^\n]*[^\W\d][^\n]*")
_WORDS = {"exit": "quit", "quit": "quit", "?": "keys", "/": "help"}
"""Lines that are commands without a slash and a name, if nothing else is in the line."""
MODES: tuple[Mode, ...] = get_args(Mode)


def parse(text: str) -> tuple[str, str] | None:
    """Return the name and argument of a command line, or None for any other line."""
    found = _COMMAND.match(text.strip())
    return (found.group(1).lower(), (found.group(2) or "").strip()) if found else None


def parse_input(text: str) -> tuple[str, str] | None:
    """Parse a line typed at the prompt: like `parse`, but some words and signs are commands as well."""
    word = _WORDS.get(text.strip().lower())
    return (word, "") if word else parse(text)


def skill_call(text: str) -> tuple[str, str] | None:
    """Return name and argument of a line that may call a skill as `$name`; None for any other line."""
    found = _SKILL.match(text.strip())
    return (found.group(1), (found.group(2) or "").strip()) if found else None


def is_command(text: str, own: Collection[str] = ()) -> bool:
    """Return True if `text` is a line for the command of this name, of a synonym for it, or of one in `own`."""
    parsed = parse(text)
    if parsed is None:
        return False
    name = parsed[0]
    return is_built_in(name) or name in own or name in SYNONYMS or name in ANSWERS


def is_own(name: str, own: Iterable[OwnCommand]) -> bool:
    """Return True if a name is the beginning or the end of a custom command's."""
    return any(each.name.startswith(name) or each.name.endswith(f":{name}") for each in own)


def is_note(text: str) -> bool:
    """Return True if a line is a note for the memory: a single line that begins with one `#` and contains
    words."""
    return bool(_NOTE.fullmatch(text.strip()))


def is_built_in(name: str) -> bool:
    """Return True if the table has a command of this name or alias."""
    return ALIASES.get(name, name) in TABLE


def is_long(name: str) -> bool:
    """Return True if a command runs for minutes."""
    command = TABLE.get(ALIASES.get(name, name))
    return command is not None and command.is_long


def beginning(begun: str, own: Iterable[str] = ()) -> list[str]:
    """Return the names with this prefix: those of the table; else those of `own`; else the targets of other
    names."""
    for names in (TABLE, own):
        if found := [name for name in names if name.startswith(begun)]:
            return found
    return list(dict.fromkeys(name for other, name in OTHER_NAMES.items() if other.startswith(begun)))


async def run(context: CommandContext, name: str, argument: str) -> None:
    """Run a command, or print what is wrong with it."""
    from .custom import run as run_own

    if command := TABLE.get(ALIASES.get(name, name)):
        if command.idle and context.client.snapshot().busy:
            context.say(f"/{command.name} has to wait: a turn is running. Ctrl-C stops it.")
        else:
            await command.run(context, argument)
    elif not await run_own(context, name, argument):
        await _run_other(context, name, argument)


async def _run_other(context: CommandContext, name: str, argument: str) -> None:
    """Handle a name that no command has: the end of a custom command's, another agent's name for a command, or a
    prefix."""
    own = await asyncio.to_thread(context.host.own_commands)
    names = [each.name for each in own if not problem_of(each)]
    short = [each for each in names if each.endswith(f":{name}")]
    if not short and name in SYNONYMS:
        await run(context, SYNONYMS[name], argument)
        return
    if not short and name in ANSWERS:
        context.say(ANSWERS[name])
        return
    found = short or beginning(name, names)
    if len(found) == 1:
        await run(context, found[0], argument)
    elif found:
        which = f"end with :{name}" if short else f"begin with /{name}"
        context.say(f"Several commands {which}: {_listed(found)}.")
    else:
        _unknown(context, name)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"/{lines.one_line(name, 40)}" for name in names)


_NEAR = 0.62
"""Similarity of a mistyped name to those that are suggested."""


def _unknown(context: CommandContext, name: str) -> None:
    import difflib

    near = difflib.get_close_matches(name, TABLE, n=3, cutoff=_NEAR)
    hint = f"Did you mean {_listed(near)}?" if near else "/help lists the commands."
    context.say(f"There is no command /{lines.one_line(name, 80)}. {hint}")


async def _more(context: CommandContext, argument: str) -> None:
    """`/more`: print the text shortened last in full."""
    context.expand()


def _in(module: str, name: str) -> Callable[..., Any]:
    """Return a command, or the names to offer for one, from a module that is imported on first use."""
    return lambda *given: getattr(importlib.import_module(f".{module}", __package__), name)(*given)


def _numbers(context: CommandContext) -> list[str]:
    """Return the numbers of the prompts to which `/rewind` can go back, newest first."""
    return [str(point.number) for point in reversed(context.client.rewind_points())]


def _ways_back(context: CommandContext) -> list[str]:
    return [f"{number}{what}" for number in _numbers(context) for what in ("", " code", " conversation")]


def _marked(context: CommandContext) -> list[str]:
    items = range(1, len(context.client.context().items) + 1)
    return [f"{word} {number}" for word in ("drop", "pin", "keep") for number in items]


_TALK, _CONTEXT, _FILES, _MODEL, _SESSION, _SETTINGS, _HELP = get_args(Group)
_ROWS = (
    Command(_HELP, "help", "", "list the commands", _in("help", "show_commands")),
    Command(
        _MODEL, "model", "[NAME]", "show or change the model", _in("settings", "model"),
        lambda context: (line.name for line in context.host.models("")),
    ),
    Command(
        _MODEL, "mode", "[MODE]", "show or change what is allowed without asking", _in("settings", "mode"),
        lambda _: MODES
    ),
    Command(
        _MODEL, "effort", "[LEVEL]", "show or change the reasoning effort",
        _in("settings", "effort"), lambda _: EFFORTS
    ),
    Command(
        _MODEL, "permissions", "[remove [RULE]]", "list the rules in force, or remove a saved one",
        _in("settings", "permissions"),
        lambda context: (f"remove {line.rule}" for line in context.host.permissions() if line.is_saved),
    ),
    Command(
        _FILES, "undo", "[N] [code|conversation]", "undo the last turns and their file changes",
        _in("conversation", "undo"),
    ),
    Command(_FILES, "redo", "", "revert the last undo", _in("conversation", "redo")),
    Command(
        _FILES, "rewind", "[N] [code|conversation]", "go back to before an earlier prompt",
        _in("conversation", "rewind"),
        _ways_back,
    ),
    Command(
        _FILES, "resolve", "mine|old|merge [FILE…]", "resolve files that an undo skipped",
        _in("conversation", "resolve"), lambda context: ("mine", "old", "merge"),
    ),
    Command(
        _TALK, "retry", "", "continue after a stop or a failure", _in("conversation", "retry"), idle=True,
    ),
    Command(
        _TALK, "queue", "[TEXT]", "queue a prompt for after this turn, or list the queue", _in("inspect", "queue")
    ),
    Command(_TALK, "more", "", "print in full what was shortened last; again, what came before", _more),
    Command(_FILES, "diff", "", "show all file changes of the session", _in("inspect", "diff")),
    Command(
        _FILES, "review", "[--base REF|--commit SHA|…] [WORDS]", "review a change in separate conversations",
        _in("inspect", "review"), lambda context: ("--base ", "--commit ", "--uncommitted", "--patch "),
        idle=True, is_long=True,
    ),
    Command(_TALK, "plan", "", "show the model's plan", _in("inspect", "plan")),
    Command(
        _TALK, "jobs", "[stop|keep N]", "list, stop or keep background jobs", _in("inspect", "jobs"),
        lambda context: (f"{do} {job.id}" for job in context.client.snapshot().jobs for do in ("stop", "keep")),
    ),
    Command(
        _TALK, "agents", "[NAME|stop NAME|send NAME TEXT|merge NAME|types]",
        "list sub-agents, show what one did, or act on it", _in("agents", "agents"),
        _in("agents", "agent_names"),
    ),
    Command(_SESSION, "status", "", "show session, model, mode and sandbox", _in("inspect", "status")),
    Command(_SESSION, "cost", "", "show tokens and cost so far", _in("inspect", "cost")),
    Command(
        _SESSION, "trace", "[N|all]", "show where the time of a turn went", _in("trace", "trace"),
        lambda context: ("all",),
    ),
    Command(
        _CONTEXT, "compact", "[FOCUS|preview|edit|keep|undo]",
        "compact the conversation; preview, edit or revert the summary", _in("conversation", "compact"),
        lambda context: ("preview", "edit", "keep", "undo"),
    ),
    Command(
        _CONTEXT, "context", "[drop|pin|keep N]", "show what fills the context window; drop or pin a message",
        _in("conversation", "context"),
        _marked,
    ),
    Command(
        _CONTEXT, "memory", "[BLOCK|undo]", "show the memory; undo removes the last #note",
        _in("conversation", "memory"),
        lambda context: (block.label for block in context.host.memory()),
    ),
    Command(_CONTEXT, "init", "[FOCUS]", "have the model write AGENTS.md", _in("conversation", "init")),
    Command(
        _TALK, "copy", "[last|code|N]", "copy the last answer, or a code block of it",
        _in("export", "copy"), lambda context: ("last", "code"),
    ),
    Command(_SESSION, "export", "[FILE]", "write the session as Markdown, HTML or JSON", _in("export", "export")),
    Command(_SESSION, "search", "WORDS", "search all saved sessions", _in("sessions", "search")),
    Command(_SESSION, "sessions", "", "list the saved sessions of this directory", _in("sessions", "sessions")),
    Command(
        _SESSION, "resume", "[ID]", "open a saved session", _in("sessions", "resume"),
        lambda context: (line.id for line in context.host.sessions()), idle=True,
    ),
    Command(_SESSION, "rename", "[NAME]", "give the session a name", _in("sessions", "rename")),
    Command(
        _SESSION, "fork", "[N]", "continue in a copy, from here or from before prompt N",
        _in("sessions", "fork"), _numbers,
        idle=True,
    ),
    Command(_SESSION, "new", "", "start a new session", _in("sessions", "new"), idle=True),
    Command(
        _CONTEXT, "add-dir", "PATH", "add a folder to the workspace of this session", _in("sessions", "add_dir"),
        idle=True,
    ),
    Command(_MODEL, "tools", "", "list the model's tools", _in("settings", "tools")),
    Command(
        _MODEL, "mcp", "[NAME]", "show MCP servers; restart, on or off NAME changes one", _in("extensions", "mcp"),
        _in("extensions", "server_names"),
    ),
    Command(
        _SETTINGS, "hooks", "[on|off NAME]", "show hooks and their last runs, or switch one",
        _in("extensions", "hooks"), _in("extensions", "hook_names"),
    ),
    Command(
        _MODEL, "skills", "[NAME]", "list skills, or show one; /NAME and $NAME call it",
        _in("extensions", "skills"), lambda context: (skill.name for skill in context.host.skills()[0]),
    ),
    Command(_SETTINGS, "plugins", "", "list plug-ins", _in("extensions", "plugins")),
    Command(
        _SETTINGS, "theme", "[NAME]", "change the colours", _in("settings", "theme"),
        _in("settings", "theme_names"),
    ),
    Command(
        _SETTINGS, "config", "[KEY]", "show the configuration, and where each value comes from",
        _in("settings", "config"),
        lambda context: (line.key for line in context.host.config()),
    ),
    Command(_HELP, "keys", "", "list the keys", _in("help", "show_keys")),
    Command(_HELP, "doctor", "", "check whether a task could run here", _in("help", "doctor")),
    Command(_HELP, "bug", "", "write a bug report to a file; nothing is sent", _in("export", "bug")),
    Command(_SESSION, "quit", "", "quit", _in("sessions", "leave")),
)  # fmt: skip
TABLE: dict[str, Command] = {command.name: command for command in _ROWS}
ALIASES = {"?": "help", "exit": "quit", "q": "quit", "clear": "new", "models": "model", "usage": "cost"}
SYNONYMS = {
    "allowed-tools": "permissions",
    "approvals": "permissions",
    "bashes": "jobs",
    "branch": "fork",
    "checkpoint": "rewind",
    "compress": "compact",
    "continue": "resume",
    "directory": "add-dir",
    "extensions": "plugins",
    "feedback": "bug",
    "keybindings": "keys",
    "ps": "jobs",
    "reasoning": "effort",
    "reset": "new",
    "restore": "rewind",
    "settings": "config",
    "shells": "jobs",
    "shortcuts": "keys",
    "stats": "cost",
    "summarize": "compact",
    "tasks": "jobs",
    "thinking": "effort",
    "todo": "plan",
    "todos": "plan",
    "tokens": "context",
}
"""Names that other agents use. A user command with one of these names takes precedence."""
ANSWERS = {
    "about": "`agent --version` shows the version, /status the session, /doctor checks what works.",
    "add": "Write @PATH in a prompt to attach a file. /add-dir PATH adds a folder to the workspace.",
    "architect": "/mode plan lets the agent read and plan; /mode auto-edit lets it go on.",
    "ask": "/mode plan lets the agent read and answer without changing anything.",
    "auth": "`agent -m PROVIDER/MODEL` in a shell asks for that provider's key. See `agent help providers`.",
    "code": "/mode auto-edit lets the agent edit without asking; /mode ask asks first.",
    "commit": "Ask for a commit in words, or run it yourself: !git commit.",
    "docs": "`agent help` in a shell lists the documentation, `agent help TOPIC` shows a page.",
    "drop": "/context drop N removes a message or a result from the conversation.",
    "editor": "Ctrl-G opens the line in $VISUAL or $EDITOR.",
    "git": "!git … runs git yourself, and the model sees the output with your next prompt.",
    "ide": "An editor starts the agent itself: `agent help editors`. Ctrl-G opens the line in $VISUAL or $EDITOR.",
    "lint": "!COMMAND runs a command yourself. `after_edit_run` under `rules` runs one after edits.",
    "login": "`agent -m PROVIDER/MODEL` in a shell asks for that provider's key. See `agent help providers`.",
    "logout": "There is no login to end: unset the provider's key. /doctor says where it comes from.",
    "mention": "Write @PATH in a prompt to attach a file.",
    "output-style": "Describe the style in AGENTS.md; /init writes one.",
    "plugin": "Plug-ins are added and changed from the shell: `agent plugin add SOURCE`. /plugins lists them.",
    "release-notes": "`agent --version` shows the version.",
    "run": "!COMMAND runs a command yourself.",
    "sandbox": "The sandbox is chosen at the start, by --sandbox or `sandbox` in config.yaml. /status shows it.",
    "security-review": "/review takes instructions: /review Look for security problems.",
    "statusline": "The status line cannot be changed: it shows the model, mode, context, cost and sandbox.",
    "terminal-setup": "Nothing to set up: Ctrl-J, Alt-Enter or \\ and Enter break the line.",
    "test": "!COMMAND runs your tests yourself; a failure goes to the model with your next prompt.",
    "upgrade": "Update with the tool that installed it, such as pipx or uv.",
    "verbose": "/more prints in full what was shortened; `--debug` writes a log.",
    "vim": "`agent config set ui.vi_mode true` turns vi keys on, from the next start.",
    "web": "Write @URL in a prompt to attach a page.",
}
"""Further names that other agents use, and how to do the same here, in one line."""
OTHER_NAMES = {**ALIASES, **SYNONYMS}
"""Every alias and synonym of a command."""


def problem_of(command: OwnCommand) -> str:
    """Return why a command cannot be used; empty if it can."""
    if not command.problem and is_built_in(command.name):
        return f"there is a built-in /{command.name}"
    return command.problem
