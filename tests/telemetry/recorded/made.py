"""Sessions with times and sums that are known."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from hypothesis import strategies as st

from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import (
    FORMAT_VERSION,
    AgentStateChanged,
    AnyRecord,
    CallStarted,
    Header,
    ModelCalled,
    TurnEnded,
    encode,
)
from agent_cli.protocol.usage import Usage

NOON = 1_790_000_100.0
"""Ten minutes from the end of a quarter of an hour."""


def header(session_id: str = "0ab1727c", cwd: str = "/home/me/basket", **more: str) -> Header:
    return Header(
        id="session_1", time=NOON, version=FORMAT_VERSION, session_id=session_id, cwd=cwd,
        model="openai/m", mode="ask", created_by="agent-cli 0.1.0", **more,  # type: ignore[arg-type]
    )  # fmt: skip


def called(
    at: float, duration_s: float, first_s: float | None = None, outcome: str = "stop", **more: object
) -> ModelCalled:
    """A model call that ended `at` seconds after noon."""
    given = {"kind": "main", "model": "openai/m", "turn_id": "t1", "id": f"call_{at}", **more}
    return ModelCalled(
        time=NOON + at, outcome=outcome, duration_s=duration_s, first_token_s=first_s, **given  # type: ignore[arg-type]
    )  # fmt: skip


def result(at: float, name: str, duration_s: float, call_id: str = "", **more: object) -> ToolResult:
    given = {"turn_id": "t1", "status": "ok", "text": "done", **more}
    return ToolResult(
        id=f"r{at}{name}", time=NOON + at, call_id=call_id or name, tool=name, duration_s=duration_s, **given  # type: ignore[arg-type]
    )  # fmt: skip


def answered(at: float, *calls: str, turn_id: str = "t1") -> AssistantMessage:
    made = tuple(ToolCall(call, call.rstrip("0123456789"), "{}") for call in calls)
    return AssistantMessage(id=f"a{at}", turn_id=turn_id, time=NOON + at, text="Well.", calls=made)


def a_turn() -> list[AnyRecord]:
    """A turn of 30 s: a failed attempt of 2 s and a pause of 3 s, a call of 5 s with its first token after 2 s, two
    readers together (2 s and 1 s), a command of 4 s that was allowed after 6 s, an answer of 5 s, 3 s of ours."""
    return [
        UserMessage(id="u1", turn_id="t1", time=NOON, text="Mend it."),
        called(2, 2, outcome="rate_limit", cost_usd=0.0),
        called(10, 5, 2, "tool_calls", usage=Usage(input=100, output=20, cache_read=900), cost_usd=0.01),
        answered(10, "read_file1", "grep1", "shell1"),
        result(12, "read_file", 2),
        result(12, "grep", 1, status="failed"),
        CallStarted(id="s1", time=NOON + 18, turn_id="t1", call_id="shell"),
        result(22, "shell", 4, waited_s=6, exit_code=0),
        called(28, 5, 1, usage=Usage(input=50, output=80, cache_read=1000), cost_usd=0.02),
        answered(28),
        TurnEnded(id="e1", turn_id="t1", time=NOON + 30, stop_reason="end_turn", duration_s=30),
    ]


def a_child(session_id: str = "c1c1c1c1") -> list[AnyRecord]:
    """A sub-agent that the call `agent` of its parent has started."""
    return [
        header(session_id, parent_id="0ab1727c", call_id="agent", agent_name="explore-1", agent_type="explore"),
        AgentStateChanged(id="n1", time=NOON + 31, state="running", task="Look."),
        UserMessage(id="cu", turn_id="ct", time=NOON + 31, text="Look."),
        called(35, 4, 1, turn_id="ct", id="cc", usage=Usage(input=10, output=1), cost_usd=0.5),
        result(36, "list_dir", 0.5, turn_id="ct"),
        AgentStateChanged(id="n2", time=NOON + 37, state="done", text="Found."),
    ]


def save(path: Path, records: Sequence[AnyRecord]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    numbered = [msgspec.structs.replace(record, seq=number) for number, record in enumerate(records, start=1)]
    path.write_bytes(b"[\n" + b",\n".join(map(encode, numbered)) + b"\n]\n")
    path.chmod(0o600)
    return path


_counts = st.none() | st.integers(0, 10_000)
_usages = st.none() | st.builds(
    Usage, input=_counts, output=_counts, cache_read=_counts, cache_write=_counts, reasoning=_counts
)


@st.composite
def sessions(draw: st.DrawFn) -> list[AnyRecord]:
    """Sessions of any calls in any order, with clocks that jump."""
    found: list[AnyRecord] = [header()]
    now = NOON
    for number in range(draw(st.integers(0, 12))):
        now += draw(st.floats(-5, 2000))
        turn = draw(st.sampled_from(["t1", "t2", "t3"]))
        took = draw(st.floats(0, 100))
        match draw(st.sampled_from(["prompt", "model", "answer", "tool", "started", "end"])):
            case "prompt":
                found.append(UserMessage(id=f"u{number}", turn_id=turn, time=now, text="x"))
            case "model":
                outcome = draw(st.sampled_from(["stop", "tool_calls", "rate_limit", "interrupted", "crashed"]))
                kind = draw(st.sampled_from(["main", "summary", "subagent", "limit"]))
                agent = "c1c1c1c1" if kind == "subagent" else ""
                first = draw(st.none() | st.floats(0, 100))
                found.append(
                    ModelCalled(
                        id=f"m{number}", turn_id=turn, time=now, kind=kind, model=draw(st.sampled_from(["a/b", "c"])),
                        outcome=outcome, usage=draw(_usages), duration_s=took, first_token_s=first, agent=agent,
                        cost_usd=draw(st.none() | st.floats(0, 9)),
                    )
                )  # fmt: skip
            case "answer":
                found.append(AssistantMessage(id=f"a{number}", turn_id=turn, time=now, text="x"))
            case "tool":
                waited = draw(st.sampled_from([0.0, 0.0, 7.0]))
                found.append(
                    ToolResult(
                        id=f"r{number}", turn_id=turn, time=now, call_id=f"k{number}", status="ok", text="x",
                        tool=draw(st.sampled_from(["shell", "grep", "ask_user"])), duration_s=took, waited_s=waited,
                    )
                )  # fmt: skip
            case "started":
                found.append(CallStarted(id=f"s{number}", turn_id=turn, time=now, call_id=f"k{number + 1}"))
            case _:
                found.append(TurnEnded(id=f"e{number}", turn_id=turn, time=now, stop_reason="end_turn"))
    return found
