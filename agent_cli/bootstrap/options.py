"""Options of the three commands on the fast path (`agent`, `agent run`, `agent resume`), as one table, used by the
parser here and by Typer's help."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec

from agent_cli.config.layer import nearest
from agent_cli.protocol.actions import Mode, SandboxLevel
from agent_cli.protocol.stop_reason import UsageError as UsageError
from agent_cli.protocol.usage import EFFORTS

Kind = Literal["text", "whole", "number", "flag", "list"]


COMMANDS = frozenset(
    (
        *"review sessions stats trace undo redo replay batch eval worktree models permissions mcp".split(),
        *"skills plugin serve acp config setup doctor bug demo help".split(),
    )
)
"""The sub-commands other than those of `PARSED_HERE`, handled by Typer."""
PARSED_HERE = frozenset({"run", "resume"})
"""The sub-commands that must start fast."""
NO_DIRECTORY = "the current directory does not exist any more; go to another one"


class Option(msgspec.Struct, frozen=True):
    """An option. `names` are its spellings, the long one first."""

    names: tuple[str, ...]
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    value: str = ""
    """Name of its value in help, if it has no choices."""
    may_lack_value: bool = False
    """True if the option is also valid without a value, at the end of the line or before another option."""
    default: Any = None
    """Its value if it is not given; only for commands that Typer parses, as `least` is."""
    least: float | None = None
    """Minimum of a number."""

    @property
    def key(self) -> str:
        """The option's name as a Python identifier."""
        return self.names[0].lstrip("-").replace("-", "_")


SHARED: tuple[Option, ...] = (
    Option(
        ("--model", "-m"),
        "text",
        "Model to use; sonnet, opus, gpt, gemini, … select the newest of their family.",
        value="PROVIDER/MODEL",
    ),
    Option(("--mode",), "text", "What runs without asking.", get_args(Mode)),
    Option(("--sandbox",), "text", "Sandbox level for commands.", get_args(SandboxLevel)),
    Option(("--cd", "-C"), "text", "Work in this directory.", value="DIR"),
    Option(("--add-dir",), "list", "Add a folder to the workspace (repeatable).", value="DIR"),
    Option(("--continue", "-c"), "flag", "Resume the last session of this directory."),
    Option(
        ("--resume", "-r"),
        "text",
        "Resume a session by the beginning of its id, its name or its file. Without ID, pick from a list.",
        value="ID",
        may_lack_value=True,
    ),
    Option(("--fork",), "flag", "With --continue or --resume: work on a copy of the session."),
    Option(("--effort",), "text", "Reasoning effort.", EFFORTS),
    Option(("--max-turns",), "whole", "Limit on model calls per prompt.", value="N"),
    Option(("--max-cost",), "number", "Limit on cost per prompt, in US dollars.", value="USD"),
    Option(("--config",), "text", "Read an additional configuration file.", value="FILE"),
    Option(("--set",), "list", "Set a configuration key (repeatable).", value="KEY=VALUE"),
    Option(("--no-hooks",), "flag", "Disable hooks."),
    Option(("--no-session",), "flag", "Do not save the session."),
    Option(("--plain",), "flag", "Plain mode: no colours, no cursor movement (as ui.plain)."),
    Option(
        ("--tools",),
        "text",
        "Tools to offer: core, read-only, full or names; -NAME removes one.",
        value="NAMES",
    ),
    Option(("--system-prompt",), "text", "Use this file as the system prompt.", value="FILE"),
    Option(("--append-system-prompt",), "text", "Add this text to the system prompt.", value="TEXT"),
    Option(("--debug",), "flag", "Write a log and print its path."),
    Option(
        ("--trace",),
        "text",
        "Write a trace of time and cost: OpenTelemetry as JSON lines, or one session for Perfetto in FILE.json.",
        value="FILE",
    ),
)

WORKTREE = Option(
    ("--worktree", "-w"),
    "text",
    "Work in the git worktree of this name; created if it does not exist.",
    value="NAME",
)

PRINT = Option(("--print", "-p"), "flag", "Run one task non-interactively, as `agent run` does.")

RUN_ONLY: tuple[Option, ...] = (
    Option(("--session-id",), "text", "Id of the new session: a UUID, or 8 hexadecimal digits.", value="ID"),
    Option(
        ("--input-format",),
        "text",
        "What standard input holds: the task as text, or prompts and answers as JSON lines.",
        ("text", "stream-json"),
    ),
    Option(("--output-format",), "text", "Output format.", ("text", "json", "stream-json")),
    Option(("--output-schema",), "text", "JSON Schema file that the answer must match.", value="FILE"),
    Option(("--output-file", "-o"), "text", "Also write the final text to this file.", value="FILE"),
    Option(("--timeout",), "number", "Limit on the whole run, in seconds.", value="SECONDS"),
    Option(("--verify",), "text", "Command that must succeed for the run to succeed.", value="CMD"),
    Option(("--image", "-i"), "list", "Attach an image file (repeatable).", value="FILE"),
    Option(("--quiet", "-q"), "flag", "No progress on standard error."),
)

RESUME_ONLY: tuple[Option, ...] = (
    Option(("--last",), "flag", "Resume the most recent session of any directory."),
)


class ParsedOptions(msgspec.Struct, frozen=True):
    """A parsed command line."""

    command: Literal["agent", "run", "resume"]
    values: dict[str, Any]
    positional: str | None = None

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        return None if value is None else str(value)

    def flag(self, key: str) -> bool:
        return bool(self.values.get(key))

    def several(self, key: str) -> tuple[str, ...]:
        return tuple(self.values.get(key, ()))

    def number(self, key: str) -> float | None:
        value = self.values.get(key)
        return None if value is None else float(value)


TABLES: dict[str, tuple[Option, ...]] = {
    "agent": (*SHARED, WORKTREE, PRINT),
    "run": (*SHARED, WORKTREE, PRINT, *RUN_ONLY),
    "resume": SHARED + RESUME_ONLY,
}


def parse(command: Literal["agent", "run", "resume"], arguments: Sequence[str]) -> ParsedOptions:
    """Return the options and the positional argument of a command.

    Raises:
        UsageError: unknown option, missing or invalid value, more than one positional argument.
    """
    _refuse_other_commands(command, arguments[:1])
    by_name = {name: option for option in TABLES[command] for name in option.names}
    values: dict[str, Any] = {}
    positional: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            positional += rest
            break
        if not word.startswith("-") or word == "-":
            positional.append(word)
            continue
        name, equals, attached = word.partition("=")
        if not word.startswith("--") and len(word) > 2:
            name, equals, attached = word[:2], "=", word[2:].removeprefix("=")
        option = by_name.get(name)
        if option is None:
            raise UsageError(_unknown(name, by_name))
        if option.kind == "flag":
            if equals:
                raise UsageError(f"{name} takes no value")
            values[option.key] = True
            continue
        if not equals and not (option.may_lack_value and (not rest or rest[0].startswith("-"))):
            if not rest or rest[0].partition("=")[0] in by_name:  # `NAME=--mode` gives a value that looks like one
                raise UsageError(f"{name} needs a value")
            attached = rest.pop(0)
        store_value(values, option, attached)
    _check_words(command, positional, is_text="--" in arguments)
    if command != "agent" and values.get("resume") == "":
        raise UsageError("--resume needs a session here; `agent resume` shows a list to pick from")
    return ParsedOptions(command, values, positional[0] if positional else None)


def asks_to_print(arguments: Sequence[str]) -> bool:
    """Return True if the options of `agent` request a single task without interaction, as in other agents."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(name in words for name in PRINT.names)


def _check_words(command: str, words: Sequence[str], *, is_text: bool) -> None:
    """Check the positional words.

    Raises:
        UsageError: there is more than one word, or one that resembles the name of a command.
    """
    if not is_text:
        _refuse_other_commands(command, words)
    known = (*COMMANDS, *TABLES)
    if len(words) > 1 and words[0] in (PARSED_HERE | COMMANDS if command == "agent" else COMMANDS):
        raise UsageError(f"options go after the command: agent {' '.join(words)} …")
    is_prompt = command != "agent" or is_text or not words or words[0] in known
    if not is_prompt and (near := nearest(words[0], known, 0.8)):
        as_prompt = f" As a prompt: `agent -- {words[0]}`" if len(words) == 1 else ""
        meant = " ".join(["agent", near, *words[1:]])
        raise UsageError(f"there is no command {words[0]!r}; did you mean `{meant}`?{as_prompt}")
    if len(words) > 1:
        raise UsageError(f"unexpected {words[1]!r}; {_ONE_WORD[command]}")


def _refuse_other_commands(command: str, words: Sequence[str]) -> None:
    """Refuse commands of other agents.

    Raises:
        UsageError: the first word is such a command; as a prompt it would be sent to a model.
    """
    if command == "agent" and words and words[0] in OTHER_COMMANDS:
        raise UsageError(f"there is no command {words[0]!r}: {OTHER_COMMANDS[words[0]]}")


_KEY = (
    "`agent setup` asks for a key if none is set, `agent -m PROVIDER/MODEL` for one of that provider; `agent help"
    " providers` names every variable"
)
_RUN = "`agent run TASK` runs one task non-interactively"
_UPDATE = "update with the tool that installed it, such as `pipx upgrade agent-cli`"
OTHER_COMMANDS = {
    "auth": _KEY,
    "chat": "`agent` starts a conversation",
    "completion": "`agent --install-completion` completes commands in your shell",
    "e": _RUN,
    "exec": _RUN,
    "export": "`agent sessions export ID` exports a session",
    "history": "`agent sessions list` lists saved sessions",
    "hooks": "/hooks in a session lists hooks; `agent help hooks` explains them",
    "import": "`agent sessions import FILE` imports a session",
    "init": "`agent config init` writes a configuration; /init in a session has the model write AGENTS.md",
    "login": _KEY,
    "logout": "there is no login to end; `agent mcp logout NAME` ends one at a server",
    "plugins": "`agent plugin list` lists plug-ins; `agent help plugins` explains them",
    "setup-token": _KEY,
    "update": _UPDATE,
    "upgrade": _UPDATE,
    "worktrees": "`agent worktree list` lists worktrees",
    "version": "`agent --version` shows the version",
}
"""Commands of other agents, and their equivalents here."""
_ONE_WORD = {
    "agent": "put a prompt of several words in quotes",
    "run": "put a task of several words in quotes",
    "resume": "it takes one id; put a title of several words in quotes",
}
"""Advice on words after the one that a command accepts."""


def store_value(values: dict[str, Any], option: Option, text: str) -> None:
    """Add the value of an option as it was typed.

    Raises:
        UsageError: it is invalid.
    """
    name = option.names[0]
    if option.choices and text not in option.choices:
        raise UsageError(f"{name}: {text!r} is not one of {', '.join(option.choices)}")
    try:
        match option.kind:
            case "whole":
                values[option.key] = int(text)
            case "number":
                values[option.key] = float(text)
            case "list":
                values.setdefault(option.key, []).append(text)
            case _:
                values[option.key] = text
    except ValueError:
        raise UsageError(f"{name}: {text!r} is not a number") from None
    if option.kind in ("whole", "number") and not values[option.key] > 0:  # also rejects nan
        raise UsageError(f"{name}: {text!r} is not greater than 0")


_MODE = "write `--mode plan|ask|auto-edit|yolo`"
_YOLO = "write `--mode yolo`"
_JSON = "`agent run --output-format json` prints a result, `stream-json` events"
_RULES = "write rules, such as `--set 'permissions.%s=[\"shell(make test)\"]'`; `agent help permissions`"
_EFFORT = "write `--effort LEVEL`"
_LOG = "`--debug` writes a log"
_MENTION = "name it in the prompt as @FILE"
_AGENTS = "`agent help agents` says where sub-agents are defined"
OTHER_OPTIONS = {
    "-a": _MODE,
    "--agent": _AGENTS,
    "--agents": _AGENTS,
    "--allowed-tools": _RULES % "allow",
    "--allowedTools": _RULES % "allow",
    "--api-key": _KEY,
    "--approval-mode": _MODE,
    "--ask-for-approval": _MODE,
    "--auto": "write `--mode auto-edit`",
    "--base-url": "set OPENAI_BASE_URL, or `providers.NAME.base_url` in the configuration; `agent help providers`",
    "--checkpointing": "every turn can be undone; leave it out",
    "--color": "set the variable NO_COLOR",
    "--cwd": "write `--cd DIR`",
    "--dangerously-skip-permissions": _YOLO,
    "--dir": "write `--cd DIR`",
    "--disallowed-tools": _RULES % "deny",
    "--disallowedTools": _RULES % "deny",
    "-f": _MENTION,
    "--fallback-model": "write `--set 'fallback_models=[PROVIDER/MODEL]'`",
    "--file": _MENTION,
    "--fork-session": "write `--fork`",
    "--full-auto": "write `--mode auto-edit`",
    "--headless": _RUN,
    "--ide": "editors start `agent acp`; `agent help editors`",
    "--include-directories": "write `--add-dir DIR`",
    "--json": _JSON,
    "--json-schema": "write `--output-schema FILE`",
    "--list-sessions": "`agent sessions list` lists saved sessions",
    "--log-level": _LOG,
    "--max-budget-usd": "write `--max-cost USD`",
    "--mcp-config": "`agent mcp add` adds servers, and files of other agents are read; `agent help mcp`",
    "--message": _RUN,
    "--no-auto-commits": "nothing is committed unless you ask for it; leave it out",
    "--no-color": "set the variable NO_COLOR",
    "--no-sandbox": "write `--sandbox off`",
    "--oss": "write `--model ollama/MODEL`",
    "--output-last-message": "write `--output-file FILE`",
    "-p": _RUN,
    "--permission-mode": _MODE,
    "--plugin-dir": "`agent plugin add DIR` adds plug-ins",
    "--print": _RUN,
    "--profile": "write `--config FILE`",
    "--prompt": _RUN,
    "--prompt-interactive": "`agent PROMPT` starts a conversation with a prompt",
    "--reasoning": _EFFORT,
    "--reasoning-effort": _EFFORT,
    "-s": "write `--sandbox LEVEL`",
    "--search": "set `tools.web.search` in the configuration; `agent help tools`",
    "--settings": "write `--config FILE`, or `--set KEY=VALUE`",
    "--skip-git-repo-check": "no git repository is needed; leave it out",
    "--stream": _JSON,
    "--thinking": _EFFORT,
    "-v": "-V shows the version, `--debug` writes a log",
    "--verbose": _LOG,
    "--version": "`agent --version` shows the version",
    "-y": _YOLO,
    "--yes": _YOLO,
    "--yes-always": _YOLO,
    "--yolo": _YOLO,
}
"""Options of other agents, and their equivalents here."""
_NEAR = 0.7
"""Similarity of a mistyped option to the one that is suggested."""


def _unknown(name: str, known: dict[str, Option]) -> str:
    if name in OTHER_OPTIONS:
        return f"unknown option {name}: {OTHER_OPTIONS[name]}"
    for command, table in TABLES.items():
        if any(name in option.names for option in table):
            return f"unknown option {name}: it is an option of `agent {command}`"
    near = nearest(name, list(known), cutoff=_NEAR)
    return f"unknown option {name}; " + (f"did you mean {near}?" if near else "see --help")
