"""Earlier turns on the screen: drawn as while they ran, without what only a clock could tell."""

from collections.abc import Iterator

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.ui.render.renderer import Renderer
from agent_cli.ui.text.theme import NONE
from tests.ui.fake_client import SNAPSHOT
from tests.ui.tool_events import finished

Turn = tuple[ev.AnyEvent, ...]


def answer(text: str, reasoning: str = "") -> Turn:
    done = ev.AnswerCompleted(
        message_id="m", text=text, finish="stop", calls=0, usage=None, cost_usd=None, duration_s=0
    )
    thought = (ev.ReasoningDelta(text=reasoning),) if reasoning else ()
    return (*thought, ev.TextDelta(text=text), done)


def turn(number: int, *events: ev.AnyEvent) -> Turn:
    end = ev.TurnCompleted(stop_reason="end_turn", text="", steps=1, duration_s=2.5)
    return (ev.TurnStarted(turn_id=f"t{number}", text=f"prompt {number}"), *events, end)


def command(number: int) -> ev.AnyEvent:
    text = "".join(f"line {row} of {number}\n" for row in range(30))
    return finished(title=f"make {number}", command=f"make {number}", text=text, exit_code=0)


def renderer(**settings: bool) -> Renderer:
    return Renderer(NONE, Ui(**settings), lambda: 60, lambda: SNAPSHOT)  # type: ignore[arg-type]


def replayed(view: Renderer, turns: list[Turn], rows: int) -> str:
    view.replay(reversed(turns), len(turns), rows)
    return view.take(final=True)


def test_a_turn_is_drawn_as_while_it_ran() -> None:
    events = turn(1, command(1), *answer("It is **done**.\n\n- one\n- two\n"))
    live = renderer()
    for event in events:
        live.handle(event)
    *rows, blank, end = live.take(final=True).splitlines()
    assert end.startswith("— 2.5s") and not blank
    assert replayed(renderer(), [events], 10).splitlines() == rows


def test_nothing_is_said_that_only_a_clock_could_tell() -> None:
    events = turn(1, *answer("Done.", "Let me see.\nYes.\n"))
    hidden = replayed(renderer(show_reasoning=False), [events], 10)
    assert "~ thought, 2 lines (Ctrl-O shows them)\n" in hidden and "Let me see" not in hidden
    shown = replayed(renderer(show_reasoning=True), [events], 10)
    assert "~ Let me see.\n~ Yes.\n" in shown and "thought" not in shown
    stopped = (*events[:-1], ev.TurnAborted(stop_reason="interrupted"))
    out = replayed(renderer(), [stopped], 10)
    assert out.endswith("! Interrupted. Nothing lost – /retry continues.\n") and "— " not in out


def test_the_newest_turns_that_fill_the_screen_are_drawn_and_the_others_when_asked_for() -> None:
    asked: list[int] = []

    def turns() -> Iterator[Turn]:
        for number in range(5_000, 0, -1):
            asked.append(number)
            yield turn(number, *answer(f"answer {number}"))

    view = renderer()
    view.replay(turns(), 5_000, 11)
    out = view.take(final=True)
    assert asked == [5_000, 4_999, 4_998]
    assert out.startswith(
        "… 4997 earlier prompts (Ctrl-O shows them)\n\n▌ prompt 4998\n\nanswer 4998\n\n▌ prompt 4999"
    )
    assert out.endswith("\n\nanswer 5000\n")
    view.expand()
    more = view.take(final=True)
    assert "In full: 4997 earlier prompts" in more and more.endswith("answer 4997\n") and len(asked) < 500
    left = min(asked) - 1
    assert f"… {left} earlier prompts (Ctrl-O shows them)\n\n▌ prompt {left + 1}\n" in more
    view.expand()
    assert view.take(final=True).endswith(f"answer {left}\n")


def test_the_last_turn_is_drawn_however_long_it_is() -> None:
    long = turn(2, *answer("\n\n".join(f"row {row}" for row in range(99))))
    out = replayed(renderer(), [turn(1), long], 10)
    assert out.startswith("… 1 earlier prompt (Ctrl-O shows them)\n\n▌ prompt 2\n") and "row 98" in out


def test_what_is_folded_in_earlier_turns_can_be_expanded_the_last_first() -> None:
    view = renderer()
    out = replayed(view, [turn(1), *(turn(number, command(number)) for number in range(2, 32))], 300)
    assert out.startswith("… 10 earlier prompts") and out.count("more lines") > 20
    view.expand()
    assert "line 0 of 31\n" in view.take(final=True)
    for _ in range(18):
        view.expand()
    assert "earlier prompt" not in view.take(final=True)
    view.expand()
    assert "earlier prompt" in view.take(final=True)


def test_turns_that_cannot_be_read_take_nothing_with_them() -> None:
    def turns() -> Iterator[Turn]:
        yield turn(2, *answer("Here."))
        raise OSError("cannot read session x.json")

    view = renderer()
    view.replay(turns(), 2, 10)
    assert (
        view.take(final=True)
        == "! Earlier turns cannot be shown: cannot read session x.json\n\n▌ prompt 2\n\nHere.\n"
    )
