"""`agent run` against a provider that stutters, refuses and hangs up: the right answer, each call run exactly
once, nothing lost in the session."""

import json
import re
from collections import Counter

import pytest

from tests.e2e.world import Done, World
from tests.model.server import Call, Reply

COMMAND = 'echo "größe ✓ 😀 \\"quoted\\"" >> marker'
LINE = 'größe ✓ 😀 "quoted"\n'
ANSWER = "größer ✓ 😀\n\nund länger"
CALL = Call("shell", {"command": COMMAND})
ASK = Reply(text="I will.", calls=(CALL,))
END = Reply(text=ANSWER)
LONG = pytest.mark.long
"""On variations of what other cases show; the scripts of faults in `tests/core` have them in process."""
EVENTS = 4
"""Of `ASK`: role, text, the call's name, its arguments. Then come its finish, the usage, the end."""


def run(world: World, *replies: Reply) -> Done:
    world.script(*replies)
    return world.run("run", "the task", "--mode", "yolo", "--output-format", "stream-json")


def check(world: World, done: Done, *, attempts: int, calls: int = 1) -> None:
    """The task was done; the session knows each attempt, and each call exactly once."""
    assert done.code == 0, done.err
    assert done.result["text"] == ANSWER and done.result["error"] is None
    marker = world.work / "marker"
    assert (marker.read_text(encoding="utf-8") if calls else marker.exists()) == (LINE * calls or False)
    assert len(world.bodies()) == attempts
    told = world.messages()
    assert "the task" in told[0] and len(told) == 1 + 2 * calls
    kinds = Counter(record["type"] for record in world.records())
    assert kinds["model_call"] == attempts == done.result["usage"]["requests"]
    assert kinds["call_started"] == kinds["tool_result"] == calls
    retries = [line for line in done.lines if line["type"] == "retry_scheduled"]
    assert len(retries) == attempts - 1 - calls
    world.script(Reply(text="going on"))
    assert world.run("run", "-c", "go on").out == "going on\n"
    assert world.messages()[: len(told)] == told
    answer, prompt = world.messages()[len(told) :]
    assert answer == ANSWER and re.sub(r"^Date: .*\n\n", "", prompt) == "go on"  # a new day may have begun


@pytest.mark.parametrize(
    "manner",
    [
        {"piece": 1, "split": 1},
        {"piece": 6, "event_delay_s": 0.03},
        pytest.param({"piece": 1}, marks=LONG),
        pytest.param({"piece": 3, "split": 7}, marks=LONG),
        pytest.param({"delay_s": 0.5}, marks=LONG),
    ],
    ids=str,
)
def test_however_the_stream_is_cut_up(world: World, manner: dict[str, float]) -> None:
    ask = Reply(text="größer ✓ 😀", reasoning="hm ✓", calls=(CALL,), **manner)  # type: ignore[arg-type]
    check(world, run(world, ask, Reply(text=ANSWER, **manner)), attempts=2)  # type: ignore[arg-type]
    assert world.messages()[1] == "größer ✓ 😀"


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(
            Reply(status=429, headers={"retry-after": "1"}, body={"error": {"message": "slow down"}}), marks=LONG
        ),
        Reply(status=429, headers={"retry-after-ms": "50"}, body={"error": {"message": "slow down"}}),
        Reply(status=500, headers={"retry-after": "0"}, body="<html><title>Oops</title></html>"),
        pytest.param(
            Reply(status=503, headers={"retry-after": "0"}, body={"error": {"message": "overloaded"}}), marks=LONG
        ),
        Reply(raw='data: {"error": {"message": "overloaded", "code": 503}}\n\n'),
    ],
    ids=["429 a second", "429 50 ms", "500 HTML", "503", "in the stream"],
)
def test_a_refusal_is_tried_again(world: World, refusal: Reply) -> None:
    done = run(world, refusal, ASK, END)
    check(world, done, attempts=3)
    (retry,) = (line for line in done.lines if line["type"] == "retry_scheduled")
    asked = float(refusal.headers.get("retry-after", 0))
    assert retry["attempt"] == 2 and asked <= retry["delay_s"] <= asked + 1.1
    assert "Retry 1 in" in done.err


@pytest.mark.parametrize(
    ("drop", "piece", "after"),
    [
        ("rst", 0, 1),
        ("fin", 0, EVENTS),
        ("rst", 4, 9),
        pytest.param("fin", 0, 2, marks=LONG),
        pytest.param("rst", 0, 3, marks=LONG),
        pytest.param("rst", 0, EVENTS, marks=LONG),
        pytest.param("fin", 4, 3, marks=LONG),
    ],
)
def test_a_connection_that_breaks_before_the_finish(world: World, drop: str, piece: int, after: int) -> None:
    """In the text, inside the arguments, behind the complete call: the answer is void, and asked for again."""
    broken = Reply(text=ASK.text, calls=(CALL,), piece=piece, drop=drop, after=after)  # type: ignore[arg-type]
    done = run(world, broken, ASK, END)
    check(world, done, attempts=3)
    (retry,) = (line for line in done.lines if line["type"] == "retry_scheduled")
    shown = "".join(
        line["text"] for line in done.lines if line["type"] == "text_delta" and line["seq"] < retry["seq"]
    )
    assert retry["discarded_chars"] == len(shown)


def test_a_stream_without_a_finish_runs_nothing(world: World) -> None:
    done = run(world, Reply(text=ASK.text, calls=(CALL,), finish=""), ASK, END)
    check(world, done, attempts=3)


@pytest.mark.parametrize(
    ("drop", "after"),
    [
        ("fin", EVENTS + 1),
        ("rst", EVENTS + 2),
        pytest.param("rst", EVENTS + 1, marks=LONG),
        pytest.param("fin", EVENTS + 2, marks=LONG),
    ],
)
def test_a_connection_that_breaks_behind_the_finish(world: World, drop: str, after: int) -> None:
    """The answer was complete: it counts, and is not asked for again."""
    broken = Reply(text=ASK.text, calls=(CALL,), drop=drop, after=after)  # type: ignore[arg-type]
    check(world, run(world, broken, END), attempts=2)


def test_arguments_cut_off_by_the_model_never_run(world: World) -> None:
    cut = json.dumps(CALL.arguments)[:-9]
    done = run(world, Reply(text="I will.", calls=(Call("shell", cut),)), ASK, END)
    assert done.code == 0 and (world.work / "marker").read_text(encoding="utf-8") == LINE
    assert "Nothing was run" in world.messages(role="tool")[0]


def test_calls_cut_off_at_the_output_limit_never_run(world: World) -> None:
    done = run(world, Reply(calls=(CALL,), finish="length"), ASK, END)
    assert done.code == 0 and (world.work / "marker").read_text(encoding="utf-8") == LINE
    assert "cut off" in world.messages(1)[-1] and "shell" in world.messages(1)[-1]


def test_faults_between_the_steps_of_one_turn(world: World) -> None:
    soon = {"retry-after": "0"}
    done = run(
        world,
        Reply(status=500, headers=soon),
        Reply(text=ASK.text, calls=(CALL,), piece=2, drop="rst", after=12),
        ASK,
        Reply(status=503, headers=soon),
        Reply(status=429, headers=soon),
        ASK,
        Reply(text=ANSWER, piece=2, drop="fin", after=5),
        END,
    )
    check(world, done, attempts=8, calls=2)


def test_what_came_before_the_last_failure_is_kept(world: World) -> None:
    """The provider dies in the middle of the answer and stays dead."""
    gone = Reply(status=503, headers={"retry-after": "9999"})
    done = run(world, ASK, Reply(text="half an answer", piece=5, drop="rst", after=3), gone)
    assert (done.code, done.result["stop_reason"]) == (4, "provider_error")
    assert (world.work / "marker").read_text(encoding="utf-8") == LINE
    world.script(Reply(text="going on"))
    assert world.run("run", "-c", "go on").code == 0
    assert world.messages(role="tool") and "the task" in world.messages()[0]
    assert world.messages()[-1] == "go on"


def test_a_server_that_is_not_there(world: World) -> None:
    nobody = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    done = world.run("run", "the task", "--output-format", "json", "--timeout", "2", env=nobody)
    assert (
        done.code in (4, 5)
        and "Cannot talk to OpenAI: cannot connect to" in done.err
        and "Traceback" not in done.err
    )
    world.script(Reply(text="going on"))
    assert world.run("run", "-c", "go on").code == 0 and "the task" in world.messages()[0]


def test_another_provider_takes_over_and_the_next_input_begins_with_the_first(world: World) -> None:
    """Both names lead to the same server; the second speaks another wire format."""
    base = world.environment()["OPENAI_BASE_URL"]
    options = (
        "--set", "fallback_models=[second/m2]", "--set", f"providers.second.base_url={base}",
        "--set", "providers.second.wire=openai_responses",
    )  # fmt: skip
    broke = Reply(status=402, body={"error": {"message": "no credit left", "code": "insufficient_quota"}})
    world.script(broke, ASK, END)
    done = world.run("run", "the task", "--mode", "yolo", "--output-format", "stream-json", *options)
    assert (done.code, done.result["text"]) == (0, ANSWER), done.err
    assert (world.work / "marker").read_text(encoding="utf-8") == LINE
    assert [line["model"] for line in done.lines if line["type"] == "fell_back"] == ["second/m2"]
    assert "no credit left" in done.err and "second/m2 takes over" in done.err
    assert [record["model"] for record in world.records() if record["type"] == "model_call"] == [
        "openai/mock-model", "second/m2", "second/m2",
    ]  # fmt: skip
    world.script(Reply(text="first again"))
    assert world.run("run", "-c", "go on", *options).out == "first again\n"


@pytest.mark.parametrize(
    "body", ["<html><title>Sign in</title></html>", "Welcome to nginx!"], ids=["page", "text"]
)
def test_something_else_that_answers_is_asked_three_times(world: World, body: str) -> None:
    world.may_refuse = True  # a fourth request would be
    world.script(*[Reply(body=body, headers={"content-type": "text/html"})] * 3)
    done = world.run("run", "a", "--output-format", "json")
    assert (done.code, done.result["stop_reason"], len(world.server.requests)) == (4, "provider_error", 3)
    assert all(word in done.err for word in ("OPENAI_BASE_URL", "proxy", "login"))


def test_what_answers_that_broke_off_cost_is_unknown_and_said_to_be(world: World) -> None:
    prices = "providers.openai.models.mock-model.prices={input: 1, output: 1, cache_read: 1}"
    broken = Reply(text="word " * 50, piece=20, drop="rst", after=5)
    world.script(broken, Reply(text="whole", usage={"prompt_tokens": 100, "completion_tokens": 20}))
    options = ("--set", prices, "--set", "limits.retry_s=20", "--output-format", "json")
    result = world.run("run", "a", *options).result
    assert (result["text"], result["usage"]["requests"], result["usage"]["input"]) == ("whole", 2, 100)
    assert (result["cost_usd"], result["cost_is_partial"], result["usage_is_partial"]) == (0.00012, True, True)
    costs = [
        (each.get("cost_usd"), "at_most_usd" in each) for each in world.records() if each["type"] == "model_call"
    ]
    assert costs == [(None, True), (0.00012, False)]


def test_the_day_s_bound_is_kept_across_programs(world: World) -> None:
    prices = "providers.openai.models.mock-model.prices={input: 1000, output: 1000, cache_read: 1000}"
    options = ("--set", prices, "--set", "limits.day_cost_usd=6", "--output-format", "json")
    dear = {"prompt_tokens": 100, "completion_tokens": 5_900}
    world.script(Reply(text="dear", usage=dear))
    assert world.run("run", "a", *options).result["text"] == "dear"
    done = world.run("run", "b", *options)
    assert (done.code, done.result["stop_reason"]) == (5, "cost_limit")
    assert "6.00 USD for one day (limits.day_cost_usd; 6.00 USD spent)" in done.err


def test_a_refusal_in_the_middle_of_an_answer_is_not_repaired_by_asking_again(world: World) -> None:
    """What was shown would be said twice: only a refusal before the first word may be repaired."""
    world.may_refuse = True
    begun = {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": "Half of it"}}],
    }
    refused = {
        "error": {
            "message": "Unsupported parameter: 'stream_options'",
            "type": "invalid_request_error",
            "code": 400,
        }
    }
    raw = "".join(f"data: {json.dumps(each)}\n\n" for each in (begun, refused))
    world.script(Reply(raw=raw, headers={"content-type": "text/event-stream"}), Reply(text="again"))
    done = world.run("run", "go", "--output-format", "json")
    assert done.code == 4 and len(world.bodies()) == 1, done.result
    assert "stream_options" in done.result["error"]["message"]
