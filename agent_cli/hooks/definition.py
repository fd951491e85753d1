"""What a hook is: an event, what it is for, and the program that is asked."""

import re
from collections.abc import Awaitable, Callable, Collection
from functools import cached_property
from typing import Literal, get_args

import msgspec

Event = Literal[
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "UserPromptSubmit", "SessionStart",
    "SessionEnd", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact",
    "Notification",
]  # fmt: skip
CALL_EVENTS: frozenset[Event] = frozenset({"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"})
"""Events about a tool call; at others a condition on the call never holds."""
TOLD: frozenset[Event] = frozenset({"Notification", "SessionEnd", "StopFailure", "PostCompact"})
"""Events at which a hook is only told: what it answers decides nothing."""
DECIDING: frozenset[Event] = frozenset({"PreToolUse", "PermissionRequest", "UserPromptSubmit", "PreCompact"})
"""Events at which something is about to happen: a hook that fails there keeps it from happening."""
Dialect = Literal["native", "claude", "codex", "gemini", "cursor"]
"""Whose names, input and exit codes a hook expects."""
OnError = Literal["allow", "ask", "block"]

_ALIASES: dict[str, Event] = {
    # Gemini CLI
    "beforetool": "PreToolUse",
    "aftertool": "PostToolUse",
    "beforeagent": "UserPromptSubmit",
    "afteragent": "Stop",
    "precompress": "PreCompact",
    # Cursor
    "beforeshellexecution": "PreToolUse",
    "beforemcpexecution": "PreToolUse",
    "beforereadfile": "PreToolUse",
    "aftershellexecution": "PostToolUse",
    "aftermcpexecution": "PostToolUse",
    "afterfileedit": "PostToolUse",
    "beforesubmitprompt": "UserPromptSubmit",
}
_BY_FOLDED_NAME: dict[str, Event] = {name.lower(): name for name in get_args(Event)} | _ALIASES
_LIST = re.compile(r"[\w\- ,|]*")
"""A matcher of such characters is a list of names; any other is a regular expression."""


class HookProcess(msgspec.Struct, frozen=True):
    """How the program of a hook ended."""

    exit_code: int | None = None
    """None when it did not start, or was stopped for the time it took."""
    stdout: str = ""
    stderr: str = ""
    problem: str = ""
    """Why there is no exit code."""


Callback = Callable[[bytes, float], Awaitable[HookProcess]]
"""Takes the event as JSON and the seconds it may take; answers as a program would."""


class HttpRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an event is posted to, for a hook that is no program."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    """Names and values; `$NAME` in a value stands for a variable that is listed below."""
    env: tuple[str, ...] = ()
    """Variables that headers may name; any other is empty in them."""


class Hook(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A program that is run at an event, or a server that the event is posted to."""

    event: Event
    command: str | tuple[str, ...]
    """A line for the shell, or a program with its arguments; empty for a server."""
    matcher: str = ""
    """Which tools, sources or reasons it is for; empty for all."""
    timeout_s: float = 60.0
    dialect: Dialect = "native"
    on_error: OnError | None = None
    """What holds when it fails; None for the usual of its event and dialect."""
    name: str = ""
    source: str = ""
    """The file that defines it."""
    written_event: str = ""
    """The event in the words of its file, such as `beforeShellExecution`."""
    root: str = ""
    """The folder of the plug-in that brings it; empty for none."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables of that plug-in."""
    condition: str = ""
    """A permission rule in the words of its dialect; it is run for calls that the rule covers. Empty for all."""
    is_async: bool = False
    """It runs beside the turn, and decides nothing."""
    is_once: bool = False
    """It is run once a session."""
    status: str = ""
    """What it does, for people, while it runs."""
    shell: str = ""
    """The shell for its line; empty for the usual one."""
    request: HttpRequest | None = None
    callback: "Callback | None" = None
    """A function of the program that embeds the agent, in place of a command."""

    @property
    def line(self) -> str:
        """What is run, or where the event goes, in one line."""
        if self.callback is not None:
            return "a function of the program"
        if self.request is not None:
            return f"POST {self.request.url}"
        return self.command if isinstance(self.command, str) else " ".join(self.command)

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return self.name or " ".join(self.line.split())[:60]

    @property
    def can_decide(self) -> bool:
        """Whether what it answers counts."""
        return not self.is_async and self.event not in TOLD

    @cached_property
    def _pattern(self) -> "re.Pattern[str] | None":
        try:
            return re.compile(self.matcher)
        except re.error:
            return None

    @property
    def has_bad_matcher(self) -> bool:
        """Whether its matcher is a regular expression that cannot be read; it then matches everything."""
        return self.matcher != "*" and not _LIST.fullmatch(self.matcher) and self._pattern is None

    def is_for(self, names: Collection[str]) -> bool:
        """Return whether it is for something that goes by these names."""
        if self.matcher in ("", "*"):
            return True
        if _LIST.fullmatch(self.matcher):
            listed = {word.strip() for word in re.split(r"[|,]", self.matcher)}
            return bool(listed & set(names))
        return self._pattern is None or any(map(self._pattern.search, names))


def event_named(text: str) -> Event | None:
    """Return the event of a name in any dialect, written in any case; None when there is none."""
    return _BY_FOLDED_NAME.get(re.sub(r"[_\-]", "", text).lower())
