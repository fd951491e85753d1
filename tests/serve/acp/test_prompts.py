"""Which event answers which prompt."""

import pytest

from agent_cli.protocol import events as ev
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.serve.acp.prompts import OpenPrompt, OpenPrompts
from agent_cli.serve.jsonrpc.messages import RpcError
from tests.rows import each_row


def completed(submission: str, reason: StopReason = "end_turn") -> ev.TurnCompleted:
    return ev.TurnCompleted(submission_id=submission, stop_reason=reason, text="", steps=1, duration_s=0)


def started(submission: str, text: str = "go") -> ev.TurnStarted:
    return ev.TurnStarted(submission_id=submission, turn_id="t", text=text)


def handed_in(prompts: OpenPrompts, submission: str, guidance: str | None = None) -> OpenPrompt:
    prompt = prompts.begin()
    prompt.waits, prompt.is_handed_in, prompt.guidance = {submission}, True, guidance
    return prompt


def guided() -> tuple[OpenPrompts, OpenPrompt, OpenPrompt]:
    """A turn that runs, and guidance that it has taken."""
    prompts = OpenPrompts()
    first = handed_in(prompts, "s1")
    prompts.follow(started("s1"))
    second = handed_in(prompts, "s2", "more")
    prompts.follow(ev.OperationCompleted(submission_id="s2", operation="Steer"))
    return prompts, first, second


@each_row(
    ("reason", "stop"),
    [
        ("end_turn", "end_turn"),
        ("stuck", "end_turn"),
        ("declined", "end_turn"),
        ("length_limit", "max_tokens"),
        ("cost_limit", "max_turn_requests"),
        ("content_filter", "refusal"),
        ("interrupted", "cancelled"),
    ],
)
async def test_a_turn_ends_its_prompt(reason: StopReason, stop: str) -> None:
    prompts = OpenPrompts()
    prompt = handed_in(prompts, "s1")
    prompts.follow(started("s1"))
    prompts.follow(completed("other"))
    assert not prompt.answer.done()
    prompts.follow(completed("s1", reason))
    assert await prompt.answer == stop and not list(prompts)


async def test_guidance_that_was_read_is_answered_with_its_turn() -> None:
    prompts, first, second = guided()
    prompts.follow(ev.Steered(text="more"))
    prompts.follow(completed("s1"))
    assert (await first.answer, await second.answer) == ("end_turn", "end_turn")


async def test_guidance_that_was_not_read_is_answered_with_the_turn_it_becomes() -> None:
    prompts, first, second = guided()
    prompts.follow(completed("s1"))
    assert await first.answer == "end_turn" and not second.answer.done()
    prompts.follow(started("s3", "more"))
    prompts.follow(completed("s3", "turn_limit"))
    assert await second.answer == "max_turn_requests"


async def test_guidance_of_a_turn_that_was_stopped_is_cancelled() -> None:
    prompts, first, second = guided()
    prompts.follow(ev.TurnAborted(submission_id="s1", stop_reason="interrupted"))
    assert (await first.answer, await second.answer) == ("cancelled", "cancelled")


async def test_guidance_that_no_turn_took_is_a_prompt() -> None:
    prompts = OpenPrompts()
    prompt = handed_in(prompts, "s2", "more")
    prompts.follow(started("s2", "more"))
    prompts.follow(completed("s2"))
    assert await prompt.answer == "end_turn"


async def test_a_failure_is_an_error_unless_the_prompt_was_cancelled() -> None:
    prompts = OpenPrompts()
    failed, stopped = handed_in(prompts, "s1"), handed_in(prompts, "s2")
    stopped.is_cancelled = True
    for submission in ("s1", "s2"):
        error = ev.ErrorInfo("auth", "No key.", hint="Set one.")
        prompts.follow(ev.TurnFailed(submission_id=submission, stop_reason="auth_error", error=error))
    with pytest.raises(RpcError, match=r"No key\. Set one\.") as told:
        await failed.answer
    assert told.value.data == {"details": "No key. Set one.", "kind": "auth", "stopReason": "auth_error"}
    assert await stopped.answer == "cancelled"


async def test_what_was_taken_back_is_cancelled_and_a_closed_session_answers_all() -> None:
    prompts = OpenPrompts()
    taken, left = handed_in(prompts, "s1"), handed_in(prompts, "s2")
    prompts.follow(ev.OperationCompleted(submission_id="s1", operation="TakeBack"))
    assert await taken.answer == "cancelled"
    prompts.follow(ev.SessionClosed(session_id="x"))
    with pytest.raises(RpcError, match="closed"):
        await left.answer
