"""The one reading of a session: taken in record by record it says what all the records together say."""

import os
import random
from pathlib import Path

from agent_cli.protocol.messages import AssistantMessage, Message, PlanItem, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import (
    AnyRecord,
    CallStarted,
    CompactionReverted,
    CompactionSaved,
    InputDequeued,
    InputQueued,
    Marked,
    ModelCalled,
    Named,
    Quarantined,
    Shortened,
    TurnEnded,
    TurnsRedone,
    TurnsUndone,
)
from agent_cli.protocol.usage import Usage
from agent_cli.session.projection import Projection
from tests.rows import each_row

_SESSIONS = int(os.environ.get("AGENT_FUZZ", "0")) or 60
_FACTS = (
    "settings", "name", "last_call", "cached_share", "last_end", "waiting", "pinned", "open_calls", "prompts", "plan",
    "known_files", "used_files", "last_answer", "is_answered", "turns", "is_unfinished",
)  # fmt: skip
"""What may be asked of a projection."""


class Talk:
    """A random session, torn and changed afterwards in every way that there is a record for."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.records: list[AnyRecord] = []
        self.turns: list[str] = []
        self.messages: list[Message] = []
        self.calls: list[str] = []
        self.number = 0

    def new(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def some(self, names: list[str]) -> str:
        return self.chance.choice(names) if names else "none"

    def message(self) -> Message:
        turn, chance = self.some(self.turns[-3:]), self.chance
        match chance.randrange(4):
            case 0:
                self.turns.append(turn := self.new("t"))
                return UserMessage(id=self.new("u"), turn_id=turn, text=turn)
            case 1:
                names = [self.new("c") for _ in range(chance.randrange(4))]
                self.calls += names
                calls = tuple(ToolCall(name, "shell", "{}") for name in names)
                return AssistantMessage(
                    id=self.new("a"), turn_id=turn, text=chance.choice(["", "said"]), calls=calls
                )
            case _:
                text = "x" * chance.choice([3, 5_000])
                seen = {chance.choice("ab"): self.new("h")} if chance.random() < 0.3 else {}
                plan = (PlanItem(self.new("p")),) if chance.random() < 0.2 else None
                call = self.some(self.calls[-4:])
                return ToolResult(
                    id=self.new("r"), call_id=call, turn_id=turn, tool="shell", status="ok", text=text, seen=seen,
                    plan=plan,
                )  # fmt: skip

    def change(self) -> AnyRecord:
        chance, some = self.chance, self.some
        message, turn = some([each.id for each in self.messages]), some(self.turns)
        turns = tuple(dict.fromkeys((turn, some(self.turns))))
        reductions = [each.id for each in self.records if isinstance(each, CompactionSaved | Shortened)]
        kept = tuple(
            {some([each.id for each in self.messages if isinstance(each, UserMessage)]) for _ in range(2)}
        )
        return chance.choice(
            [
                TurnsUndone(id="undo", turn_ids=turns, what=chance.choice(["both", "conversation", "code"])),
                TurnsRedone(id="redo", turn_ids=turns),
                CompactionSaved(id=self.new("f"), through=message, kept=kept, summary="sum", turn_id=turn),
                Shortened(id=self.new("s"), call_ids=tuple(self.calls[-6:]), keep_chars=400, turn_id=turn),
                Shortened(id=self.new("s"), call_ids=tuple(self.calls), keep_chars=1_000, turn_id=turn),
                CompactionReverted(id="revert", fold_id=some(reductions)),
                Marked(id="mark", message_id=message, mark=chance.choice(["pinned", "dropped", ""])),
                Quarantined(id="held", message_id=message, reason="no", images_only=chance.random() < 0.5),
            ]
        )

    def fact(self) -> AnyRecord:
        queued = [each.id for each in self.records if isinstance(each, InputQueued)]
        return self.chance.choice(
            [
                CallStarted(id="start", call_id=self.some(self.calls)),
                TurnEnded(
                    id="end",
                    turn_id=self.some(self.turns),
                    stop_reason=self.chance.choice(["end_turn", "interrupted"]),
                ),
                Named(id="name", title=self.new("title")),
                InputQueued(id=self.new("q"), text="later"),
                InputDequeued(id="taken", queued_ids=(self.some(queued),)),
                ModelCalled(id="call", kind="main", model="m", outcome="stop", usage=Usage(input=self.number)),
            ]
        )

    def grow(self, number: int) -> None:
        for _ in range(number):
            roll = self.chance.random()
            record = self.message() if roll < 0.6 else self.fact() if roll < 0.8 else self.change()
            self.records.append(record)
            if isinstance(record, UserMessage | AssistantMessage | ToolResult):
                self.messages.append(record)


@each_row("seed", range(_SESSIONS))
def test_what_is_taken_in_record_by_record_is_what_all_records_say(seed: int) -> None:
    talk = Talk(random.Random(seed))
    root = Path("/work")
    step_by_step = Projection(talk.records, root)
    for _ in range(40):
        talk.grow(1)
        step_by_step.update()
        anew = Projection(list(talk.records), root)
        assert step_by_step.visible() == anew.visible(), talk.records
        assert step_by_step.fold_in_force() == anew.fold_in_force()
        for fact in _FACTS:
            assert getattr(step_by_step, fact) == getattr(anew, fact), (fact, talk.records)
        assert list(step_by_step.open_calls) == list(anew.open_calls)
