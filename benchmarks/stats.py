"""What it costs to make and to open the page of a session of 5,000 steps, and to count a thousand sessions."""

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, ToolStatus, UserMessage
from agent_cli.protocol.records import (
    FORMAT_VERSION,
    AnyRecord,
    CallStarted,
    CompactionSaved,
    Header,
    ModelCalled,
    TurnEnded,
    encode,
)
from agent_cli.protocol.usage import Usage
from agent_cli.store.catalog import Sessions
from agent_cli.store.export.formats import exported
from agent_cli.telemetry.recorded.statistics import statistics

STEPS = 5_000
SESSIONS = 1_000
_TOOLS = (("read_file", 0.02), ("grep", 0.15), ("shell", 3.0), ("edit_file", 0.06), ("web_fetch", 1.4))
_BROWSER_S = 60


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    records = list(session(STEPS))
    began = time.perf_counter()
    text = exported(records, "html")
    rows = [
        (f"page of {STEPS:,} steps, written", time.perf_counter() - began, "s", 5.0),
        (f"page of {STEPS:,} steps, size", len(text.encode()) / 1e6, "MB", 40.0),
    ]
    page = folder / "page.html"
    page.write_text(text, encoding="utf-8")
    if (opened_s := opened(page)) is not None:
        rows.append((f"page of {STEPS:,} steps, opened in Chromium", opened_s, "s", 3.0))
    sessions = Sessions(folder / "stats" / "sessions")
    for number in range(SESSIONS):
        path = sessions.folder / "p" / f"20260101T000000Z-{number:08x}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"[\n" + b",\n".join(map(encode, session(40, number))) + b"\n]\n")
    for name, bound in (("first time", 10.0), ("from the index", 1.5)):
        began = time.perf_counter()
        assert statistics(sessions, ("day", "model", "tool")).total.sessions == SESSIONS
        rows.append((f"statistics of {SESSIONS:,} sessions, {name}", time.perf_counter() - began, "s", bound))
    return rows


def opened(page: Path) -> float | None:
    """Return the seconds in which a browser starts, opens a page, and has drawn it, less those for an empty page;
    None where there is none."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        return None
    empty = page.with_name("empty.html")
    empty.write_text("<!doctype html><title>x</title>", encoding="utf-8")
    took = []
    for each in (empty, page):
        began = time.perf_counter()
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent}/profile",
             f"--screenshot={page.parent}/shot.png", "--window-size=1200,900", each.as_uri()],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_BROWSER_S, check=True,
        )  # fmt: skip
        took.append(time.perf_counter() - began)
    return max(0.0, took[1] - took[0])


def session(steps: int, number: int = 0) -> Iterator[AnyRecord]:
    """Yield a session of so many model calls: prompts of eight steps, tools that fail now and then, approvals,
    retries, compactions, and a sub-agent."""
    source = random.Random(number)
    now = 1_790_000_000.0 + number * 7200
    yield Header(
        id="s", time=now, version=FORMAT_VERSION, session_id=f"{number:08x}", cwd=f"/home/me/p{number % 7}",
        model="openai/gpt-demo", mode="ask", created_by="agent-cli 0.1.0", system="Be careful. " * 900,
    )  # fmt: skip
    turn, sent, began, last = "", 9_000, now, ""
    for step in range(steps):
        if step % 8 == 0:
            if turn:
                yield TurnEnded(
                    id=f"e{step}", turn_id=turn, time=now, stop_reason="end_turn", duration_s=now - began
                )
            now += source.expovariate(1 / 400)
            turn, began = f"t{step // 8}", now
            yield UserMessage(
                id=f"u{step}", turn_id=turn, time=now, text=f"Prompt {step // 8}: mend the next thing."
            )
        if step % 97 == 41:
            now += 1.2
            yield ModelCalled(
                id=f"f{step}", turn_id=turn, time=now, kind="main", model="openai/gpt-demo", outcome="rate_limit",
                duration_s=1.2, cost_usd=0.0,
            )  # fmt: skip
            now += source.uniform(2, 9)
        if step % 211 == 160:
            yield CompactionSaved(
                id=f"k{step}", turn_id=turn, time=now, through=last, summary="What was done. " * 60
            )
            sent = 12_000
        first, took = source.expovariate(1 / 1.1) + 0.2, source.expovariate(1 / 5) + 0.4
        now += first + took
        cached = 0 if step % 131 == 90 or step % 211 == 160 else int(sent * 0.94)
        output = source.randint(60, 900)
        yield ModelCalled(
            id=f"m{step}", turn_id=turn, time=now, kind="main", model="openai/gpt-demo", outcome="tool_calls",
            usage=Usage(input=sent - cached, output=output, cache_read=cached, reasoning=output // 3),
            cost_usd=(sent - cached) * 3e-6 + cached * 3e-7 + output * 15e-6,
            duration_s=first + took, first_token_s=first,
        )  # fmt: skip
        calls = [source.choice(_TOOLS) for _ in range(source.randint(0, 3))]
        last = f"a{step}"
        made = tuple(
            ToolCall(f"c{step}.{at}", name, '{"path": "src/app.py"}') for at, (name, _) in enumerate(calls)
        )
        if step % 60 == 30:
            made = (*made, ToolCall(f"y{step}", "agent", "{}"))
        yield AssistantMessage(id=last, turn_id=turn, time=now, text=f"Step {step}: I look further.", calls=made)
        for call, (name, usual) in zip(made, calls, strict=False):
            waited = source.expovariate(1 / 8) if name == "shell" and source.random() < 0.2 else 0.0
            took = source.expovariate(1 / usual)
            now += waited + took
            yield CallStarted(id=f"b{call.id}", turn_id=turn, time=now - took, call_id=call.id)
            status: ToolStatus = "failed" if source.random() < 0.08 else "ok"
            text = "line of output\n" * source.randint(3, 60)
            yield ToolResult(
                id=f"r{call.id}", turn_id=turn, time=now, call_id=call.id, tool=name, status=status, text=text,
                duration_s=took, waited_s=waited,
            )  # fmt: skip
            sent += len(text) // 4
        sent = sent + output if sent < 180_000 else 20_000
        if step % 60 == 30:
            yield ModelCalled(
                id=f"x{step}", turn_id=turn, time=now + 4, kind="subagent", model="openai/gpt-small",
                outcome="stop", usage=Usage(input=3000, output=200), cost_usd=0.002, duration_s=4,
                first_token_s=1, agent="5ub5ub01",
            )  # fmt: skip
            now += 6
            yield ToolResult(
                id=f"y{step}", turn_id=turn, time=now, call_id=f"y{step}", tool="agent", status="ok", text="Done.",
                duration_s=6,
            )  # fmt: skip
    yield TurnEnded(id="e", turn_id=turn, time=now, stop_reason="end_turn", duration_s=now - began)
