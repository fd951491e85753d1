"""kill -9 at hundreds of places of a run, each placed by what the program has done so far and not by a clock: in the middle
of an append, before a file is replaced or opened for writing, when a request arrives, behind an event on standard
output. After each the session opens with everything that was saved, the next run goes on, and nothing is done twice.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import pytest

from agent_cli.protocol.records import AnyRecord
from agent_cli.store.session_file import read_session
from tests.e2e.killed import KILL, Step
from tests.e2e.test_kill import check_once, lines_of
from tests.e2e.warm import WarmProcess
from tests.e2e.world import AGENT, World, until
from tests.fuzz import LEVEL
from tests.model.replies import USAGE
from tests.model.server import Call, Received, Reply

KILLS = 50 if LEVEL else 25
"""In each of the tests, whose chains begin differently."""
CHAINS = range(1)
MANY = range(1, 4 + max(16, LEVEL // 8))
LONGEST_CHAIN = 10
STEPS = 3
WINDOW = 30_000
FULL = (100, 21_000, 25_000)
"""What the answers report as sent, for a reduction before each of the last steps."""
Kind = Literal["record", "rename", "open", "request", "event"]
PLACES: tuple[tuple[Kind, int], ...] = (("record", 24), ("event", 24), ("request", 3), ("open", 8), ("rename", 3))
"""Kinds of places, and up to the how many'th of a run to kill at."""


class Kill(NamedTuple):
    """A kill that had an effect: where it was to be, and where it fell."""

    kind: Kind
    count: int
    behind: str
    """The type of the last record in the file."""


class Chain:
    """One task, begun and killed again and again until it goes through."""

    def __init__(self, world: World, dice: random.Random, *, reduces: bool) -> None:
        self.world, self.dice, self.reduces = world, dice, reduces
        self.options = ("--sandbox", "off") if dice.random() < 0.5 else ()
        self.kills: list[Kill] = []
        self.runs = 0
        self.records: tuple[AnyRecord, ...] = ()
        """What had been saved when the last run was over."""
        self._at_request = 0
        """The how many'th request kills the program; 0 for none."""
        self._pid = 0
        world.server.answer = self._answer
        (world.work / "notes.txt").write_text(" ".join(f"<{step}>" for step in range(STEPS)), encoding="utf-8")
        if reduces:
            facts = {"providers": {"openai": {"models": {"mock-model": {"context_window": WINDOW}}}}}
            (world.config / "config.yaml").write_text(json.dumps(facts), encoding="utf-8")
            world.server.summary = Reply(text="S: notes.", piece=4)

    def _answer(self, request: Received) -> Reply:
        """The next step of the task, whichever run asks for it; a summary may have swallowed earlier ones."""
        if self._at_request and len(self.world.server.requests) + 1 >= self._at_request:
            self._kill()
        made = {call["id"] for record in self._saved("assistant") for call in record.get("calls", ())}
        step = len(made) // 3
        if step >= STEPS:
            return Reply(text="done")
        late = "sleep 0.05; " if step % 2 else ""
        edit = {"path": "notes.txt", "edits": [{"old": f"<{step}>", "new": f"<{step}{step}>"}]}
        calls = (
            Call("read_file", {"path": "notes.txt"}),
            Call("shell", {"command": f"{late}echo {step} >> marker"}),
            Call("edit_file", edit),
        )
        size = (FULL if self.reduces else (100,) * STEPS)[step]
        usage = USAGE | {"prompt_tokens": size}
        return Reply(text=f"step {step} ✓", calls=calls, usage=usage, piece=8)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended, and the kill has no effect
            os.kill(self._pid, signal.SIGKILL)

    def _saved(self, kind: str) -> list[dict[str, Any]]:
        """Records of a type in the file, which may be written at this moment."""
        lines = (
            raw.removesuffix(b",") for path in self.world.sessions() for raw in path.read_bytes().split(b"\n")
        )
        wanted = f'{{"type":"{kind}"'.encode()
        return [json.loads(line) for line in lines if line.startswith(wanted) and line.endswith(b"}")]

    def run(self, kind: Kind | None = None, count: int = 0) -> int:
        """One run, to be killed at a place; returns its exit code."""
        has_begun = bool(self.world.sessions())
        arguments = ["run", *(["-c", "go on"] if has_begun else ["the task ✓"]), "--mode", "yolo", *self.options]
        env = {KILL: f"{kind} {count}"} if kind in get_args(Step) else {}
        self._at_request = len(self.world.server.requests) + count if kind == "request" else 0
        self.runs += 1
        events: list[dict[str, Any]] = []
        with (
            (self.world.home / "errors").open("a") as errors,
            WarmProcess(
                [AGENT, *arguments, "--output-format", "stream-json"], env=self.world.environment(env),
                cwd=self.world.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8",
            ) as program,
        ):  # fmt: skip
            self._pid = program.pid
            for line in program.stdout or ():
                if not line.endswith("\n"):
                    break  # cut off by the kill
                events.append(json.loads(line))
                if kind == "event" and len(events) == count:
                    self._kill()
            code = program.wait()
        self._check(events)
        if code == -signal.SIGKILL and self.records and kind is not None:
            self.kills.append(Kill(kind, count, type(self.records[-1]).__name__))
        return code

    def _check(self, events: list[dict[str, Any]]) -> None:
        """The session opens, holds all that it held before, and all that was told."""
        if not self.world.sessions():
            assert not self.records
            return
        (path,) = self.world.sessions()
        loaded = read_session(path)
        assert not loaded.damage and not loaded.recovered
        assert loaded.records[: len(self.records)] == self.records
        self.records = loaded.records
        saved = {record.id for record in loaded.records}
        answered = {record["call_id"] for record in self._saved("tool_result")}
        for event in events:
            assert event["type"] != "answer_completed" or event["message_id"] in saved
            assert event["type"] != "tool_call_finished" or event["call_id"] in answered

    def check_end(self) -> None:
        """Once it has gone through: each call was made once, each request is in the ledger, and each began with
        the one before."""
        until(lambda: not self.world.alive())  # a late command of a killed run
        check_once(self.world)
        assert sorted(lines_of(self.world)) == sorted(set(lines_of(self.world)))
        called = self.world.records("model_call")
        assert len(self.world.records("request")) == len(called) >= len(self.world.server.requests)
        assert all(("usage" in call) == (call["outcome"] != "crashed") for call in called)
        bodies = [body["messages"] for body in self.world.bodies()]
        if not self.reduces:
            for earlier, later in zip(bodies, bodies[1:], strict=False):
                assert later[: len(earlier)] == earlier


def kill_often(folder: Path, seed: int) -> list[Kill]:
    """Chains of killed runs until so many kills have had an effect, and one of each kind: on a busy machine more of
    them come too late."""
    kills: list[Kill] = []
    number = 0
    while len(kills) < KILLS or (missing(kills) and number < LONGEST_CHAIN):
        places = PLACES if len(kills) < KILLS else missing(kills)
        dice = random.Random(f"{seed} {number}")
        base = folder / str(number)
        base.mkdir()
        with World(base) as world:
            world.use_own_tmp()
            chain = Chain(world, dice, reduces=number % 3 == 2)
            wanted = max(1, min(LONGEST_CHAIN, KILLS - len(kills)))
            while len(chain.kills) < wanted and chain.runs < 3 * LONGEST_CHAIN:
                kind, most = dice.choice(places)
                if chain.run(kind, dice.randint(1, most)) == 0:
                    break
            assert chain.run() == 0, (world.home / "errors").read_text(encoding="utf-8")
            chain.check_end()
        kills += chain.kills
        number += 1
    return kills


def missing(kills: list[Kill]) -> tuple[tuple[Kind, int], ...]:
    """The kinds of places without a kill."""
    return tuple(place for place in PLACES if place[0] not in {kill.kind for kill in kills})


def table(kills: list[Kill]) -> str:
    """Where kills fell: rows by the last record, columns by kind."""
    kinds = [kind for kind, _ in PLACES]
    counts = Counter((kill.behind, kill.kind) for kill in kills)
    rows = [f"{'behind':18}" + "".join(f"{kind:>9}" for kind in kinds)]
    for behind in sorted({kill.behind for kill in kills}):
        rows.append(f"{behind:18}" + "".join(f"{counts[behind, kind]:9}" for kind in kinds))
    return "\n".join([*rows, f"{len(kills)} kills"])


@pytest.mark.parametrize("seed", [*CHAINS, *(pytest.param(each, marks=pytest.mark.long) for each in MANY)])
def test_kill_9_at_any_step(tmp_path: Path, seed: int) -> None:
    kills = kill_often(tmp_path, seed)
    print(f"\n{table(kills)}")
    assert len(kills) >= KILLS and not missing(kills), table(kills)
    assert len({kill.behind for kill in kills}) >= 5, table(kills)  # a seed of the long run may meet no more
