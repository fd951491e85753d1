"""Operations as JSON: what programs may hand in, and what is said of anything else."""

import base64
import json
from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from agent_cli.protocol import operations as ops
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operation_json import NAMES, OperationError, decode, encode, schema
from tests.rows import each_row

PICTURE = Image("image/png", base64.b64encode(b"\x89PNG").decode())
DECISION = ops.Decision("call_1", allow=True, feedback="ok", grant="shell(ls *)", scope="project", hunks=(0, 2))
EVERY: tuple[ops.Operation, ...] = (
    ops.UserInput("Grüße\n", (PICTURE,), is_data=True),
    ops.Steer("left"),
    ops.TakeBack(),
    ops.ApprovalAnswer("ask_1", (DECISION,)),
    ops.QuestionAnswer("ask_2", "yes"),
    ops.Interrupt(),
    ops.Undo(2),
    ops.Redo(),
    ops.Rewind("turn_1", "code"),
    ops.Resolve("mine", ("a.py",)),
    ops.Compact("the tests", preview=True),
    ops.KeepSummary("short"),
    ops.Uncompact(),
    ops.MarkMessage("msg_1", "pinned"),
    ops.Rename("title"),
    ops.ChangeSettings(mode="plan"),
    ops.ControlJob("1", "stop"),
    ops.ControlAgent("a", "send", "more"),
    ops.RemoveGrant("shell(ls *)"),
)


@each_row("operation", EVERY)
def test_an_operation_comes_back_as_it_was(operation: ops.Operation) -> None:
    line = encode(operation)
    assert b"\n" not in line and json.loads(line)["type"] in NAMES
    assert decode(line) == decode(json.loads(line)) == operation
    jsonschema.validate(json.loads(line), schema())


def test_every_operation_but_the_end_of_the_session_has_a_name() -> None:
    assert {type(each) for each in EVERY} == set(get_args(ops.Operation)) - {ops.Shutdown}
    assert len(NAMES) == len(EVERY) and NAMES[:3] == ("user_input", "steer", "take_back")


@each_row(
    ("fields", "why"),
    [
        ({"type": "user_inputs", "text": "x"}, "did you mean `user_input`?"),
        ({"type": "shutdown"}, "there is no operation `shutdown`; known are user_input, steer"),
        ({"type": 3}, "there is no operation `3`"),
        ({"text": "x"}, "it has no `type`, which is one of user_input, steer"),
        ({"type": "user_input"}, "missing required field `text`; its fields are text (required), images, is_data"),
        ({"type": "steer", "text": 5}, "Expected `str`, got `int` - at `$.text`"),
        ({"type": "undo", "turns": 0}, ">= 1"),
        ({"type": "interrupt", "reason": "time_limit"}, "unknown field `reason`; it has no fields"),
        ({"type": "change_settings", "mode": "root"}, "'root' - at `$.mode`"),
        ({"type": "user_input", "text": "", "images": [{"media_type": "image/png", "data": "%%"}]}, "not base64"),
        ({"type": "user_input", "text": "", "images": [{"media_type": "image/png", "data": " "}]}, "is empty"),
        (
            {"type": "user_input", "text": "", "images": [{"media_type": "a/b", "data": "AAAA"}]},
            "models take image/",
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(OperationError) as caught:
        decode(fields)
    assert why in str(caught.value)
    assert str(caught.value).count("user_input: ") <= 1, "one reason, and not another around it"


@each_row(
    ("text", "why"),
    [
        (b"{", "not JSON: Input data was truncated"),
        (b"\xff", "not JSON: "),
        (b'{"type":"steer","text":"\\ud800"}', "not JSON: "),
        (b"[" * 200_000, "not JSON: "),
        ("[]", "not a JSON object; an operation is, such as"),
        ("null", "not a JSON object"),
    ],
)
def test_text_that_is_no_object_is_refused(text: bytes | str, why: str) -> None:
    with pytest.raises(OperationError) as caught:
        decode(text)
    assert why in str(caught.value)


@each_row(
    "field",
    [
        field.name
        for field in msgspec.structs.fields(ops.UserInput)
        if field.name not in ("text", "images", "is_data")
    ],
)
def test_a_prompt_cannot_allow_itself_anything(field: str) -> None:
    """Rules for the turn, texts that pass as a skill's, and commands that pass as the user's stay inside."""
    with pytest.raises(OperationError, match=f"unknown field `{field}`"):
        decode({"type": "user_input", "text": "x", field: []})


def test_what_cannot_come_from_outside_is_not_written() -> None:
    for inside in (ops.UserInput("x", allowed=("shell",)), ops.Interrupt("time_limit"), ops.Shutdown()):
        with pytest.raises(OperationError):
            encode(inside)


def test_a_misspelt_field_of_a_decision_is_no_yes() -> None:
    with pytest.raises(OperationError, match="unknown field `argument`"):
        decode(
            {
                "type": "approval_answer",
                "request_id": "ask_1",
                "decisions": [{"call_id": "call_1", "allow": True, "argument": "{}"}],
            }
        )
