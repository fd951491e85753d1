"""Scripts of a provider that stutters, made from a seed: a task of a few steps, each a tool call with a side
effect, and faults in front of each.

A `Stage` plays one to a client and notes what the client is to make of it; nothing in here knows how the
program works inside.
"""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from agent_cli.config.schema import Wire
from agent_cli.protocol.stop_reason import StopReason
from tests.model import wire_anthropic, wire_chat, wire_responses
from tests.model.replies import Call, Reply
from tests.model.wire_faults import Cut

FORMATS = {
    "chat_completions": wire_chat,
    "anthropic_messages": wire_anthropic,
    "openai_responses": wire_responses,
}
SILENCE_S = 1.5
"""Limit on silence in scripts that have any."""
MOST_ATTEMPTS = 6
ANSWER = "It is done. größer ✓ 😀"
Effect = Literal["retry", "cut", "aside", "good", "stop"]
"""What a beat is to its step: an attempt that fails, one that may, one that leads on without an end, the step
itself, the end of all."""


class Beat(NamedTuple):
    """One answer of the provider."""

    name: str
    effect: Effect
    reply: Callable[[], Reply]
    cut: Cut | None = None
    asks_s: float | None = None
    """The wait it asks for."""


class Script(NamedTuple):
    """A whole performance."""

    seed: int
    wire: Wire
    steps: tuple[tuple[Beat, ...], ...]
    """The last beat of each leads to the next."""
    lines: tuple[str, ...]
    """What the file must hold in the end, each once."""
    stop: StopReason
    silent: bool
    """Some beat falls silent: the client's limits must be short."""

    def __str__(self) -> str:
        told = " | ".join(" ".join(beat.name for beat in step) for step in self.steps)
        return f"seed {self.seed} {self.wire}: {told} → {self.stop}"


class Stage:
    """Plays a script; a `wire_faults.Director`."""

    def __init__(self, script: Script) -> None:
        self._steps = [list(step) for step in script.steps]
        self._beat: Beat | None = None
        self.retries: list[float | None] = []
        """The waits asked for with the attempts that failed so far; None where none was."""
        self.played: list[str] = []
        self.encore = Reply(text="going on")
        """Answered behind the script's end."""

    @property
    def over(self) -> bool:
        """Whether everything was played."""
        return not self._steps

    def next(self) -> tuple[Reply, Cut | None]:
        """The answer to the request that has come."""
        self._beat = self._steps[0].pop(0) if self._steps else None
        self.played.append(self._beat.name if self._beat else "encore")
        return (self._beat.reply(), self._beat.cut) if self._beat else (self.encore, None)

    def delivered(self, whole: bool, again: bool) -> None:
        """A cut behind the end of an answer costs nothing: the step is done."""
        beat = self._beat
        if beat is None:
            return
        if beat.effect == "retry" or (beat.effect == "cut" and not whole):
            self.retries += [] if again else [beat.asks_s]
        elif beat.effect == "cut":
            self._steps[0].clear()
        if not self._steps[0]:
            self._steps.pop(0)


def make(seed: int, wire: Wire) -> Script:
    """The script of a seed: the same each time."""
    dice = random.Random(f"{seed} {wire}")
    maker = _Maker(dice, wire)
    silent = seed % 8 == 0
    steps, lines = [], []
    for number in range(dice.randint(1, 3)):
        made = [f"{seed}-{number}-{part}" for part in range(dice.choice((1, 1, 2)))]
        good = maker.calls(made)
        steps.append((*maker.faults(good, number, silent), Beat("calls", "good", good)))
        lines += made
    stop, ending = maker.ending()
    last = maker.said(ANSWER)
    if stop == "end_turn":
        ending = (*maker.faults(last, len(steps), silent), Beat("answer", "good", last))
    return Script(seed, wire, (*steps, ending), tuple(lines), stop, silent)


class _Maker:
    """Makes beats for one script."""

    def __init__(self, dice: random.Random, wire: Wire) -> None:
        self._dice = dice
        self._wire = wire
        self._format = FORMATS[wire]
        self._adjusted = False

    def calls(self, lines: list[str]) -> Callable[[], Reply]:
        """An answer that appends each line to the file `log`, and prints enough to be worth a summary."""
        padding = "# " + "größer ✓ " * self._dice.randint(0, 12)
        commands = [f"echo {line} >> log; seq -s, 1 {150 + at} {padding}" for at, line in enumerate(lines)]
        return self._reply(
            text=self._dice.choice(("", "I will.")),
            reasoning=self._dice.choice(("", "hm ✓")),
            calls=tuple(
                Call("shell", {"command": command}, self._id(line))
                for command, line in zip(commands, lines, strict=True)
            ),
        )

    def said(self, text: str) -> Callable[[], Reply]:
        """An answer of text alone."""
        return self._reply(text=text)

    def faults(self, good: Callable[[], Reply], step: int, silent: bool) -> tuple[Beat, ...]:
        """What goes wrong before a good answer."""
        kinds = [self._refused, self._refused, self._failed, self._cut, self._cut, self._spoilt, self._odd]
        made = [self._dice.choice(kinds)(good) for _ in range(self._dice.choice((0, 1, 1, 2, 3)))]
        found = [
            beat for at, beat in enumerate(made) if beat.effect != "aside" or beat.name not in _names(made[:at])
        ]
        if silent and self._dice.random() < 0.5:
            found.append(
                Beat("silence", "cut", good, Cut(self._dice.choice((0.0, 0.5, 1.0)) * self._dice.random(), "hang"))
            )
        if step >= 2 and self._dice.random() < 0.4:
            found = [*self._overflow(), *found]
        return tuple(found)

    def ending(self) -> tuple[StopReason, tuple[Beat, ...]]:
        """How it all ends: mostly well; else the beats of the end."""
        if self._dice.random() < 0.75:
            return "end_turn", ()
        stop, beats = self._dice.choice(tuple(_ENDINGS.items()))
        return stop, tuple(self._status(*beat) if isinstance(beat, tuple) else self._ended(beat) for beat in beats)

    def _refused(self, _: object) -> Beat:
        name, asks_s, headers, message, fields = self._dice.choice(_LIMITS)

        def reply() -> Reply:
            body = {"error": {"type": "rate_limit_error", "message": message, **fields}}
            return Reply(status=429, headers={key: value() for key, value in headers.items()}, body=body)

        return Beat(f"429 {name}", "retry", reply, None, asks_s)

    def _failed(self, _: object) -> Beat:
        status = self._dice.choice((500, 502, 503, 504, 520, 529, 408))
        body = self._dice.choice((None, "<html><title>Oops</title></html>", "", "{broken", {"error": None}))
        if body is None:
            body = self._format.error(status, "it failed")
        return Beat(f"{status}", "retry", lambda: Reply(status=status, body=body))

    def _cut(self, good: Callable[[], Reply]) -> Beat:
        share = self._dice.choice((0.0, self._dice.random(), self._dice.uniform(0.3, 0.9)))
        manner: Literal["fin", "rst"] = self._dice.choice(("fin", "rst"))
        return Beat(f"{manner} at {share:.2f}", "cut", good, Cut(share, manner))

    def _spoilt(self, good: Callable[[], Reply]) -> Beat:
        """An answer that arrives whole and is none."""
        kind = self._dice.choice(
            ("no finish", "broken JSON", "error inside", "error inside", "error body", "nothing")
        )
        word = self._dice.choice(("overloaded", "rate_limit", "server"))

        def reply() -> Reply:
            made = good()
            match kind:
                case "no finish":
                    return msgspec.structs.replace(made, finish="")
                case "broken JSON":
                    events = [event.decode() for event in self._format.events(made)]
                    return Reply(raw="\x00".join([*events[: max(1, len(events) // 2 - 1)], "data: {broken\n\n"]))
                case "error inside":
                    return msgspec.structs.replace(made, error=word, usage=None)
                case "error body":
                    return Reply(
                        body={"error": {"message": "overloaded", "type": "overloaded_error", "code": 503}}
                    )
            return Reply(raw="")

        return Beat(f"{kind} {word if 'inside' in kind else ''}".strip(), "retry", reply)

    def _odd(self, good: Callable[[], Reply]) -> Beat:
        """An answer that is one, but leads nowhere."""
        kind = self._dice.choice(("empty", "cut at the limit", "broken arguments", "unknown field"))
        if kind == "unknown field" and not self._adjusted and self._wire in _FIELDS:
            self._adjusted = True
            body = self._format.error(400, f"Unrecognized request argument supplied: {_FIELDS[self._wire]}")
            return Beat("unknown field", "aside", lambda: Reply(status=400, body=body))
        if kind == "cut at the limit" and good().calls:
            return Beat(kind, "aside", lambda: msgspec.structs.replace(good(), finish="length"))
        if kind == "broken arguments":
            broken = self._reply(calls=(Call("shell", '{"command": "echo never >> log', self._id("x")),))
            return Beat(kind, "aside", broken)
        return Beat("empty", "aside", self._reply(text=""))

    def _overflow(self) -> tuple[Beat, ...]:
        """The request is too large once; a summary makes it smaller."""
        message = "prompt is too long: 205000 tokens > 200000 maximum"
        body = self._format.error(400, message)
        return (
            Beat("overflow", "aside", lambda: Reply(status=400, body=body)),
            Beat("summary", "aside", self.said("Summary: two steps were done.")),
        )

    def _ended(self, kind: str) -> Beat:
        if kind == "empty":
            return Beat(kind, "stop", self._reply(text=""))
        return Beat(kind, "stop", self._reply(text="I will not", finish="content_filter"))

    def _status(self, effect: Effect, status: int, message: str) -> Beat:
        body = self._format.error(status, message)
        return Beat(f"{status} {message}", effect, lambda: Reply(status=status, body=body))

    def _reply(self, **fields: Any) -> Callable[[], Reply]:
        usage = self._usage()
        piece = self._dice.choice((0, 0, 3, 17))
        return lambda: Reply(usage=usage, piece=piece, **fields)

    def _usage(self) -> dict[str, Any] | None:
        prompt, completion = self._dice.randint(50, 5000), self._dice.randint(1, 900)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": self._dice.randint(0, prompt)},
            "completion_tokens_details": {"reasoning_tokens": self._dice.randint(0, completion)},
        }

    def _id(self, line: str) -> str:
        """Sometimes the provider repeats an id."""
        return self._dice.choice(("", f"call_{line}", "call_same"))


def _names(beats: list[Beat]) -> set[str]:
    return {beat.name for beat in beats}


def _in(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat().replace("+00:00", "Z")


MOMENT_S = 0.2
"""How far ahead the one limit lies that names a moment in place of a time to wait."""
_Limit = tuple[str, float | None, dict[str, Callable[[], str]], str, dict[str, Any]]
_LIMITS: tuple[_Limit, ...] = (
    ("retry-after-ms", 0.03, {"retry-after-ms": lambda: "30"}, "slow down", {}),
    ("retry-after", 0.05, {"retry-after": lambda: "0.05"}, "slow down", {}),
    ("retry-after 0", None, {"retry-after": lambda: "0"}, "slow down", {}),
    ("no hint", None, {}, "slow down", {}),
    ("past date", None, {"retry-after": lambda: "Sun, 06 Nov 1994 08:49:37 GMT"}, "slow down", {}),
    (
        "x-ratelimit",
        0.04,
        {"x-ratelimit-remaining-tokens": lambda: "0", "x-ratelimit-reset-tokens": lambda: "40ms"},
        "slow down",
        {},
    ),
    (
        "anthropic-ratelimit",
        MOMENT_S,
        {
            "anthropic-ratelimit-requests-remaining": lambda: "0",
            "anthropic-ratelimit-requests-reset": lambda: _in(MOMENT_S),
        },
        "slow down",
        {},
    ),
    ("resets_in_seconds", 0.03, {}, "slow down", {"resets_in_seconds": 0.03}),
    ("retryDelay", 0.03, {}, "slow down", {"details": [{"@type": "RetryInfo", "retryDelay": "0.03s"}]}),
    ("text", 0.05, {}, "Rate limit reached. Please try again in 50ms. Visit the page.", {}),
    ("words", 0.06, {}, "Rate limit is exceeded. Try again in 0.06 seconds.", {}),
)
"""Each way of asking for a wait: name, seconds, headers, message, fields of the body."""

_FIELDS: dict[Wire, str] = {
    "chat_completions": "stream_options",
    "anthropic_messages": "cache_control",
    "openai_responses": "prompt_cache_key",
}
"""A field that every request has and that a server may refuse."""

_Ending = tuple[str, int, str] | str
_ENDINGS: dict[StopReason, tuple[_Ending, ...]] = {
    "auth_error": (("stop", 401, "invalid key"),),
    "provider_error": (*[("retry", 500, "broken")] * (MOST_ATTEMPTS - 1), ("stop", 500, "broken")),
    "bad_model": (("stop", 404, "no such model"),),
    "context_limit": (("stop", 413, "Request exceeds the maximum size"),),
    "content_filter": ("content_filter",),
    "no_answer": ("empty", "empty"),
}  # type: ignore[assignment]
"""How a turn may end early: what is answered last."""
