"""Definition of a hook: an event, a matcher, and the program to run."""

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
"""Events about a tool call; at other events a condition on the call never holds."""
_SEES_FAILURES = frozenset({"aftershellexecution", "aftermcpexecution"})
"""Events of Cursor after any call, also one that failed."""
NOTIFICATION_EVENTS: frozenset[Event] = frozenset({"Notification", "SessionEnd", "StopFailure", "PostCompact"})
"""Events at which a hook is only notified: its answer decides nothing."""
DECIDING: frozenset[Event] = frozenset({"PreToolUse", "PermissionRequest", "UserPromptSubmit", "PreCompact"})
"""Events at which something is about to happen: a failing hook prevents it."""
Dialect = Literal["native", "claude", "codex", "gemini", "cursor"]
"""The agent whose names, input and exit codes a hook expects."""
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
_LIKENESS = 0.8
"""Of a misspelt event to the one that is meant: other agents have events with similar names."""
_LONGEST_LABEL = 60
_LIST = re.compile(r"[\w\- ,|]*")
"""A matcher of only these characters is a list of names; any other is a regular expression."""


class HookProcess(msgspec.Struct, frozen=True):
    """The result of a hook's program."""

    exit_code: int | None = None
    """None if it did not start, or was stopped for exceeding its time limit."""
    stdout: str = ""
    stderr: str = ""
    problem: str = ""
    """Why there is no exit code."""


Callback = Callable[[bytes, float], Awaitable[HookProcess]]
"""Receives the event as JSON and the time limit in seconds; returns the result a program would give."""


class HttpRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Destination of an event, for a hook that is a server instead of a program."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    """Names and values; `$NAME` in a value refers to a variable listed in `env`."""
    env: tuple[str, ...] = ()
    """Variables that headers may use; others are replaced with nothing."""


class Hook(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A program that is run at an event, or a server that receives the event by POST."""

    event: Event
    command: str | tuple[str, ...]
    """A shell command line, or a program with its arguments; empty for a server."""
    matcher: str = ""
    """The tools, sources or reasons it applies to; empty for all."""
    timeout_s: float = 60.0
    dialect: Dialect = "native"
    on_error: OnError | None = None
    """Effect of a failure; None for the default of its event and dialect."""
    name: str = ""
    source: str = ""
    """The file that defines it."""
    written_event: str = ""
    """The event as named in its file, such as `beforeShellExecution`."""
    root: str = ""
    """The folder of the plug-in it belongs to; empty if none."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables of that plug-in."""
    folder: str = ""
    """The folder that its command runs in; empty for the workspace."""
    command_pattern: str = ""
    """A regular expression that the command line of a call must contain; empty for all."""
    condition: str = ""
    """A permission rule in the syntax of its dialect; the hook is run for calls that the rule covers. Empty for
    all."""
    is_async: bool = False
    """True if it runs in the background and decides nothing."""
    is_once: bool = False
    """True if it runs only once per session."""
    status: str = ""
    """Its activity, shown to the user while it runs."""
    shell: str = ""
    """The shell for its command line; empty for the default."""
    request: HttpRequest | None = None
    callback: "Callback | None" = None
    """A function of the embedding program, instead of a command."""
    fault: str = ""
    """Why it cannot be run; empty if it can."""

    @property
    def line(self) -> str:
        """The command, or the destination of the event, in one line."""
        if self.callback is not None:
            return "a function of the program"
        if self.request is not None:
            return f"POST {self.request.url}"
        return self.command if isinstance(self.command, str) else " ".join(self.command)

    @property
    def label(self) -> str:
        """Its name in messages; of a long command, the beginning and the end, where most differ."""
        line = " ".join(self.line.split())
        return self.name or (line if len(line) <= _LONGEST_LABEL else f"{line[:20]}…{line[-39:]}")

    @property
    def can_decide(self) -> bool:
        """True if its answer counts."""
        is_told = self.event in NOTIFICATION_EVENTS or (self.dialect == "gemini" and self.event == "PreCompact")
        return not self.is_async and not is_told

    def is_at(self, event: Event) -> bool:
        """Return True if the hook is run at an event. After a call, hooks of Codex, Gemini CLI and some of Cursor
        make no difference between success and failure."""
        if event == self.event or (event, self.event) != ("PostToolUseFailure", "PostToolUse"):
            return event == self.event
        return self.dialect in ("codex", "gemini") or self.written_event.lower() in _SEES_FAILURES

    @cached_property
    def _pattern(self) -> "re.Pattern[str] | None":
        return _compiled(self.matcher)

    @cached_property
    def _in_command(self) -> "re.Pattern[str] | None":
        return _compiled(self.command_pattern)

    @property
    def has_bad_matcher(self) -> bool:
        """True if its matcher is an invalid regular expression; it then matches everything."""
        is_bad = self.matcher != "*" and not self._is_list and self._pattern is None
        return is_bad or self._in_command is None

    @property
    def _is_list(self) -> bool:
        """True if its matcher is a list of names. Those of Codex, Gemini CLI and Cursor are patterns, except at
        events of Gemini CLI that are not about a call."""
        if self.dialect == "gemini" and self.event not in CALL_EVENTS:
            return True
        return self.dialect in ("native", "claude") and _LIST.fullmatch(self.matcher) is not None

    def is_for(self, names: Collection[str]) -> bool:
        """Return True if the hook applies to something with these names."""
        if self.matcher in ("", "*"):
            return True
        if self._is_list:
            listed = {word.strip() for word in re.split(r"[|,]", self.matcher)}
            return bool(listed & set(names))
        return self._pattern is None or any(map(self._pattern.search, names))

    def is_for_command(self, line: object) -> bool:
        """Return True if the hook applies to a call with this command line."""
        return self._in_command is None or self._in_command.search(str(line)) is not None


def _compiled(pattern: str) -> "re.Pattern[str] | None":
    try:
        return re.compile(pattern)
    except re.error:
        return None


def event_named(text: str) -> Event | None:
    """Return the event of a name in any dialect and case; None if there is none."""
    return _BY_FOLDED_NAME.get(re.sub(r"[_\-]", "", text).lower())


def nearest_event(text: str) -> str:
    """Return the event that a misspelt name may stand for; empty if there is none."""
    import difflib

    known: dict[str, str] = {name.lower(): name for name in get_args(Event)}
    near = difflib.get_close_matches(text.lower(), known, n=1, cutoff=_LIKENESS)
    return known[near[0]] if near else ""
