"""What leaves the engine, to front ends, the log and the model, has no secrets in it; what a person must see exactly,
and what is kept for them alone, has."""

from typing import get_args

import msgspec

from agent_cli.config.schema import Config, Provider
from agent_cli.protocol import events as ev
from agent_cli.protocol.hints import Hint
from agent_cli.protocol.messages import (
    AssistantMessage,
    Attachment,
    Message,
    PlanItem,
    ToolCall,
    ToolResult,
    UserMessage,
)
from agent_cli.redaction.redactor import Redactor
from agent_cli.session.event_bus import EventBus
from agent_cli.session.event_redaction import (
    RequestRedactor,
    configured_secrets,
    environment_redactor,
    known_secrets,
    masked,
)
from tests.costs import assert_cheaper
from tests.redaction.secrets import ALNUM, some, tokens
from tests.rows import each_row

SECRET = some(ALNUM, 30, "deploy")
REDACTOR = Redactor({"DEPLOY": SECRET})
SHOWN = "[masked: DEPLOY]"


async def told(*events: ev.AnyEvent, redactor: Redactor | None = REDACTOR) -> list[ev.AnyEvent]:
    """What a consumer gets, without the closing event; times are left out."""
    bus = EventBus(redactor=redactor)
    for event in (*events, ev.SessionClosed(session_id="s")):
        bus.emit(event)
    found = [msgspec.structs.replace(event, time=0.0) async for event in bus.events()]
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    return [msgspec.structs.replace(event, seq=0) for event in found[:-1]]


def item(text: str) -> ev.ApprovalItem:
    return ev.ApprovalItem("c", "shell", text, text, "command", text, "rule", "", text, "command", rewrite=text)


WHOLE: list[ev.AnyEvent] = [
    ev.HookRan(hook="guard", event="Stop", duration_s=0.1, failure="T", rewrite="T"),
    ev.AnswerCompleted(
        message_id="m", text="T", finish="stop", calls=0, usage=None, cost_usd=None, duration_s=0.0
    ),
    ev.ToolCallRequested(call_id="c", tool="T", title="T", arguments='{"command": "T"}'),
    ev.ToolCallStarted(call_id="c", tool="T", title="T"),
    ev.ToolCallFinished(call_id="c", tool="T", title="T", status="ok", text="T", display="T", command="T"),
    ev.QuestionAsked(request_id="r", question="T", agent_task="T"),
    ev.AgentChanged(agent_id="a", agent_name="n", agent_type="t", state="running", task="T", line="T"),
    ev.AgentEvent(agent_id="a", agent_name="n", event=ev.TurnStarted(turn_id="t", text="T")),
    ev.PlanUpdated(items=(PlanItem("a"), PlanItem("T"))),
    ev.Notice(level="info", text="T"),
    ev.Compacted(before=2, after=1, how="summary", summary="T"),
    ev.Attached(name="T", kind="file", tokens=1, note="T"),
    ev.TurnCompleted(stop_reason="end_turn", text="T", steps=1, duration_s=0.0),
    ev.TurnAborted(stop_reason="interrupted", text="T"),
    ev.TurnFailed(
        stop_reason="auth_error", error=ev.ErrorInfo("auth", "T", "T", hints=(Hint("proxy_forbids", "T"),))
    ),
    ev.OperationCompleted(operation="compact", detail="T"),
    ev.OperationFailed(
        operation="compact", error=ev.ErrorInfo("auth", "T", "T", hints=(Hint("proxy_forbids", "T"),))
    ),
    ev.RetryScheduled(
        attempt=2, delay_s=0.0, error=ev.ErrorInfo("auth", "T", "T", hints=(Hint("proxy_forbids", "T"),))
    ),
    ev.FellBack(model="a/b", error=ev.ErrorInfo("auth", "T", "T", hints=(Hint("proxy_forbids", "T"),))),
    ev.SessionClosed(session_id="s", error=ev.ErrorInfo("auth", "T", "T", hints=(Hint("proxy_forbids", "T"),))),
]
EXACT: list[ev.AnyEvent] = [
    ev.ApprovalRequested(request_id="r", items=(item("T"),)),
    ev.TurnStarted(turn_id="t", text="T"),
    ev.Steered(text="T"),
    ev.InputReturned(texts=("T",), commands=("T",)),
    ev.Renamed(title="T"),
    ev.Restored(kind="undo", turns=1, prompt="T", report=ev.RestoreReport()),
]
WITHOUT_TEXT = {
    ev.SessionStarted, ev.StepStarted, ev.StreamSilent, ev.ToolSilent, ev.ApprovalResolved, ev.QuestionResolved,
    ev.SettingsChanged,
}  # fmt: skip
PIECES = {ev.TextDelta, ev.ReasoningDelta, ev.ToolOutput}


def filled(event: ev.AnyEvent, text: str) -> ev.AnyEvent:
    """An event with `text` in place of each T."""

    def fill(value: object) -> object:
        if isinstance(value, str):
            return value.replace("T", text)
        if isinstance(value, tuple):
            return tuple(map(fill, value))
        if isinstance(value, msgspec.Struct):
            return type(value)(**{name: fill(getattr(value, name)) for name in value.__struct_fields__})
        return value

    found = fill(event)
    assert isinstance(found, ev.Event)
    return found  # type: ignore[return-value]


def test_every_kind_of_event_is_decided_about() -> None:
    decided = {type(event) for event in (*WHOLE, *EXACT)} | WITHOUT_TEXT | PIECES
    assert decided == set(get_args(ev.AnyEvent))


@each_row("event", WHOLE)
async def test_an_event_shows_no_secret(event: ev.AnyEvent) -> None:
    bus = EventBus(redactor=REDACTOR)
    bus.emit(filled(event, f"is {SECRET}."))
    bus.emit(ev.SessionClosed(session_id="s"))
    (found, *_) = [each async for each in bus.events()]
    assert msgspec.structs.replace(found, seq=0, time=0.0) == filled(event, f"is {SHOWN}.")


@each_row("event", EXACT)
async def test_what_needs_approval_and_ones_own_words_are_shown_as_they_are_and_logged_masked(
    event: ev.AnyEvent,
) -> None:
    log: list[ev.AnyEvent] = []
    bus = EventBus(log.append, REDACTOR)
    bus.emit(filled(event, SECRET))
    bus.emit(ev.SessionClosed(session_id="s"))
    (shown, *_) = [msgspec.structs.replace(each, seq=0, time=0.0) async for each in bus.events()]
    assert shown == filled(event, SECRET)
    assert msgspec.structs.replace(log[0], seq=0, time=0.0) == filled(event, SHOWN)


async def test_the_task_of_a_sub_agent_that_asks_is_masked_and_its_call_is_exact() -> None:
    asked = ev.ApprovalRequested(request_id="r", items=(item(SECRET),), agent_name="n", agent_task=f"use {SECRET}")
    (shown,) = await told(asked)
    assert shown == msgspec.structs.replace(asked, agent_task=f"use {SHOWN}")


async def test_an_event_of_a_sub_agent_is_shown_as_its_session_masked_it_and_logged_masked() -> None:
    log: list[ev.AnyEvent] = []
    bus = EventBus(log.append, REDACTOR)
    asked = ev.ApprovalRequested(request_id="r", items=(item(SECRET),))
    bus.emit(ev.AgentEvent(agent_id="a", agent_name="n", event=asked))
    bus.emit(ev.SessionClosed(session_id="s"))
    (shown, *_) = [each async for each in bus.events()]
    assert isinstance(shown, ev.AgentEvent) and shown.event == asked
    assert isinstance(log[0], ev.AgentEvent)
    assert log[0].event == ev.ApprovalRequested(request_id="r", items=(item(SHOWN),))


async def test_output_shows_no_assigned_secret_and_an_answer_keeps_it() -> None:
    text = "password: tr0ub4dor&3x"
    finished = ev.ToolCallFinished(call_id="c", tool="shell", title=text, status="ok", text=text, display=text)
    shown, answer = await told(finished, ev.Notice(level="info", text=text))
    assert isinstance(shown, ev.ToolCallFinished) and isinstance(answer, ev.Notice)
    assert (shown.text, shown.display, shown.title) == ("password: [masked: password]",) * 2 + (text,)
    assert answer.text == text


async def test_a_secret_in_pieces_of_an_answer_is_masked() -> None:
    before, after = SECRET[:11], SECRET[11:]
    found = await told(
        ev.TextDelta(text="It is ", submission_id="1"),
        ev.TextDelta(text=before, submission_id="1"),
        ev.TextDelta(text=after, submission_id="1"),
        ev.TextDelta(text=" indeed ghp", submission_id="1"),
        ev.TurnAborted(stop_reason="interrupted", submission_id="1"),
    )
    assert "".join(each.text for each in found if isinstance(each, ev.TextDelta)) == f"It is {SHOWN} indeed ghp"
    assert {each.submission_id for each in found} == {"1"} and isinstance(found[-1], ev.TurnAborted)


async def test_earlier_turns_are_told_again_without_secrets() -> None:
    answer = ev.AnswerCompleted(
        message_id="m", text=SECRET, finish="stop", calls=0, usage=None, cost_usd=None, duration_s=0
    )
    events = [ev.TurnStarted(turn_id="t", text="mine"), ev.TextDelta(text=SECRET), answer]
    shown = EventBus(redactor=REDACTOR).replayed(events)
    assert "".join(each.text for each in shown if isinstance(each, ev.TextDelta)) == SHOWN
    assert shown[0] == events[0] and shown[-1] == msgspec.structs.replace(answer, text=SHOWN)
    assert EventBus().replayed(events) == tuple(events)


async def test_reasoning_and_text_are_two_texts() -> None:
    found = await told(ev.ReasoningDelta(text="gh"), ev.TextDelta(text="x"), ev.ReasoningDelta(text="gh"))
    assert found == [ev.ReasoningDelta(text="gh"), ev.TextDelta(text="x"), ev.ReasoningDelta(text="gh")]


async def test_what_is_void_after_a_failure_is_not_told_later() -> None:
    failed = ev.RetryScheduled(attempt=2, delay_s=0.0, error=ev.ErrorInfo("server", "x"))
    assert await told(ev.TextDelta(text="a gh"), failed, ev.TextDelta(text="b ")) == [
        ev.TextDelta(text="a "), failed, ev.TextDelta(text="b ")
    ]  # fmt: skip


async def test_outputs_of_two_calls_are_masked_each_on_its_own() -> None:
    size = len(SECRET) // 2
    pieces = [
        ev.ToolOutput(call_id="a", text=f"x {SECRET[:size]}"),
        ev.ToolOutput(call_id="b", text="TOKEN="),
        ev.ToolOutput(call_id="a", text=SECRET[size:]),
        ev.ToolOutput(call_id="b", text="a1b2c3d4e5f6"),
    ]
    ends = [ev.ToolCallFinished(call_id=c, tool="shell", title="", status="ok", text="") for c in "ab"]
    found = await told(*pieces, *ends)
    texts = {c: "".join(e.text for e in found if isinstance(e, ev.ToolOutput) and e.call_id == c) for c in "ab"}
    assert texts == {"a": f"x {SHOWN}", "b": "TOKEN=[masked: TOKEN]"}
    for c, end in zip("ab", ends, strict=True):
        last = max(at for at, e in enumerate(found) if isinstance(e, ev.ToolOutput) and e.call_id == c)
        assert last < found.index(end)


async def test_without_secrets_events_are_the_same_objects_but_for_their_stamps() -> None:
    events = [
        *(filled(event, "plain") for event in WHOLE[:-1]),
        ev.TextDelta(text=" word."),
        ev.ToolOutput(call_id="z", text="x\n"),
    ]
    assert await told(*events) == await told(*events, redactor=None)


def result(number: int, text: str) -> ToolResult:
    return ToolResult(id=f"m{number}", call_id=f"c{number}", tool="shell", status="ok", text=text)


CONVERSATION: list[Message] = [
    UserMessage(id="u1", text=f"deploy with {SECRET}", context=f"Branch: {SECRET}"),
    AssistantMessage(id="a1", text="ok", calls=(ToolCall("c1", "shell", "{}"),)),
    result(1, f"TOKEN={SECRET}\npassword: tr0ub4dor&3x {tokens()['github'][1]}"),
    UserMessage(id="u2", text=f"job 1 ended: {SECRET}", origin="hint"),
]


def test_the_model_sees_no_secret_of_a_result() -> None:
    sent = RequestRedactor(REDACTOR).masked(CONVERSATION)
    assert sent[0] == UserMessage(id="u1", text=f"deploy with {SECRET}", context=f"Branch: {SHOWN}")
    assert sent[1] is CONVERSATION[1]
    assert sent[2] == result(1, f"TOKEN={SHOWN}\npassword: tr0ub4dor&3x [masked: GitHub token]")
    assert sent[3] == UserMessage(id="u2", text=f"job 1 ended: {SHOWN}", origin="hint")
    assert CONVERSATION[2] == result(1, f"TOKEN={SECRET}\npassword: tr0ub4dor&3x {tokens()['github'][1]}")


@each_row(
    ("path", "is_masked"),
    [("app.yaml", True), ("conf/App.TOML", True), ("db.properties", True), ("app.py", False), ("app.ts", False)],
)
def test_the_model_sees_no_assigned_secret_of_a_file_of_settings(path: str, is_masked: bool) -> None:
    line = "db.password = tr0ub4dor&3x"
    result = ToolResult(id="r", call_id="c", tool="read_file", status="ok", text=line, seen={path: "hash"})
    prompt = UserMessage(id="u", text="look", attachments=(Attachment(path, line),))
    sent_result, sent_prompt = RequestRedactor(REDACTOR).masked([result, prompt])
    assert isinstance(sent_result, ToolResult) and isinstance(sent_prompt, UserMessage)
    expected = "db.password = [masked: db.password]" if is_masked else line
    assert (sent_result.text, sent_prompt.attachments[0].text) == (expected, expected)


def test_a_longer_conversation_begins_as_the_shorter_one_did() -> None:
    outgoing = RequestRedactor(REDACTOR)
    for size in range(1, len(CONVERSATION) + 1):
        sent = outgoing.masked(CONVERSATION[:size])
        assert (
            sent == outgoing.masked(CONVERSATION)[:size] == RequestRedactor(REDACTOR).masked(CONVERSATION)[:size]
        )


def test_a_message_that_was_shortened_is_masked_anew() -> None:
    outgoing = RequestRedactor(REDACTOR)
    outgoing.masked([result(1, f"long {SECRET}")])
    assert outgoing.masked([result(1, f"short {SECRET}")]) == (result(1, f"short {SHOWN}"),)


def test_a_message_without_secrets_is_itself() -> None:
    assert masked(plain := result(1, "nothing"), REDACTOR) is plain


def test_a_long_session_costs_next_to_nothing_for_each_request() -> None:
    messages = [result(number, "a line of output\n" * 20) for number in range(1000)]
    outgoing = RequestRedactor(REDACTOR)
    outgoing.masked(messages)
    assert_cheaper(
        lambda: outgoing.masked(messages), lambda: RequestRedactor(REDACTOR).masked(messages), share=0.2
    )


ENVIRON = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "EDITOR": "vim",
    "ANTHROPIC_API_KEY": "k-anthropic-1",
    "GITHUB_TOKEN": "t-github-1",
    "PGPASSWORD": "p-postgres-1",
    "MY_SECRET": "s-mine-1",
    "SSH_KEY_PATH": "/home/me/.ssh/id_rsa",
    "DEPLOY_KEY": "~/.ssh/deploy",
    "TOKEN_URL": "https://example.com/token",
    "MAX_TOKENS": "128000",
    "TOKENIZERS_PARALLELISM": "false",
    "PWD": "/work",
    "DATABASE_URL": "postgres://app:s%40fe-pass1@db/x",
    "PROXY": "http://proxy:3128",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20k-otlp%2B1, x-team=t-otlp-1",
}


def test_known_secrets_are_told_by_their_names_and_places() -> None:
    found = known_secrets(ENVIRON, {"OPENAI_API_KEY": "from-file-1"})
    assert found == {
        "OPENAI_API_KEY": "from-file-1",
        "ANTHROPIC_API_KEY": "k-anthropic-1",
        "GITHUB_TOKEN": "t-github-1",
        "PGPASSWORD": "p-postgres-1",
        "MY_SECRET": "s-mine-1",
        "password in DATABASE_URL": "s@fe-pass1",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20k-otlp%2B1, x-team=t-otlp-1",
        "authorization in OTEL_EXPORTER_OTLP_HEADERS": "k-otlp+1",
        "x-team in OTEL_EXPORTER_OTLP_HEADERS": "t-otlp-1",
    }


def test_the_configuration_may_hold_secrets() -> None:
    mine = Provider(
        base_url="https://me:pass-word-1@host/v1",
        headers={"Authorization": "Bearer b3arer-value", "x-team": "team-7-abc"},
    )
    assert configured_secrets(Config(providers={"mine": mine}), {}) == {
        "Authorization of mine": "b3arer-value",
        "x-team of mine": "team-7-abc",
        "password of mine": "pass-word-1",
    }


def test_a_password_is_masked_as_it_is_written_and_as_it_is_meant() -> None:
    redactor = environment_redactor(ENVIRON, {}, Config())
    for password in ("s%40fe-pass1", "s@fe-pass1"):
        assert redactor.mask(f"login {password}!") == "login [masked: password in DATABASE_URL]!"


def test_what_a_variable_puts_into_a_header_or_an_address_is_known_to_be_secret() -> None:
    mine = Provider(base_url="https://me:${PLAIN_NAME}@gw.example", headers={"x-key": "k-${OTHER_NAME:-none}"})
    known = configured_secrets(
        Config(providers={"mine": mine}), {"PLAIN_NAME": "one-terces", "OTHER_NAME": "two-terces"}
    )
    assert known == {"x-key of mine": "k-two-terces", "password of mine": "one-terces"}
