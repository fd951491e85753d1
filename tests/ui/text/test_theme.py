"""Colours that can be read: on black, on white, and on what many people have chosen instead."""

import re
from typing import get_args

import pytest

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.ui.dialogs.approval import ApprovalDialog
from agent_cli.ui.render.renderer import Renderer
from agent_cli.ui.text.theme import NONE, Role, Theme, choose
from tests.rows import each_row
from tests.ui.fake_client import SNAPSHOT
from tests.ui.tool_events import approval_item

Colour = tuple[int, int, int]
XTERM: list[Colour] = [
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229),
    (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255), (255, 0, 255), (0, 255, 255),
    (255, 255, 255),
]  # fmt: skip
"""What xterm shows for the sixteen unless it is told otherwise."""
BLACK, WHITE, SOLARIZED_DARK, SOLARIZED_LIGHT = (0, 0, 0), (255, 255, 255), (0, 43, 54), (253, 246, 227)
BACKGROUNDS: dict[str, tuple[Colour, ...]] = {
    "dark": (BLACK, SOLARIZED_DARK),
    "light": (WHITE, SOLARIZED_LIGHT),
    "high-contrast": (BLACK, WHITE, SOLARIZED_DARK, SOLARIZED_LIGHT),
}
MARKS: set[Role] = {"ok", "error", "warning", "accent", "prompt"}
"""Roles of single signs, which stand beside words that say the same."""


def theme(name: str) -> Theme:
    return choose(Ui(theme=name), {})  # type: ignore[arg-type]


def luminance(colour: Colour) -> float:
    """WCAG 2.1, relative luminance."""
    parts = [value / 255 for value in colour]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def foreground(codes: str) -> Colour | None:
    """The colour that SGR codes choose; None for the terminal's own."""
    chosen = None
    if "38;5;22" in codes:  # the one green that can be read on white
        return (0, 95, 0)
    for code in codes.split(";"):
        number = int(code or 0)
        assert number in (0, 1, 2, 3, 4, 7, 9) or 30 <= number <= 37 or 90 <= number <= 97, (
            "only the sixteen, no background"
        )
        chosen = number - 30 if 30 <= number <= 37 else number - 82 if 90 <= number <= 97 else chosen
    return None if chosen is None else XTERM[chosen]


def test_contrast_is_measured_as_the_standard_says() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast((119, 119, 119), WHITE) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_what_is_read_can_be_read(name: str) -> None:
    """4.5 to 1 for words, 3 to 1 for marks; of a hue that reaches it nowhere, the better shade."""
    for background in BACKGROUNDS[name]:
        for role, codes in theme(name).codes.items():
            colour = foreground(codes)
            if colour is None:
                continue  # the terminal's own two colours
            wanted = 3.0 if role in MARKS else 4.5
            at = XTERM.index(colour) if colour in XTERM else -1
            shades = (XTERM[at % 8], XTERM[at % 8 + 8]) if at >= 0 else (colour,)
            best = max(contrast(shade, background) for shade in shades)
            reached = contrast(colour, background)
            assert reached >= min(wanted, best), f"{role} {codes} on {background}: {reached:.2f}"
            assert reached >= 3.0, f"{role} {codes} on {background}: {reached:.2f}"


RICH_BACKGROUNDS: dict[str, tuple[Colour, ...]] = {
    "dark": (BLACK, SOLARIZED_DARK, (30, 30, 30), (40, 44, 52)),
    "light": (WHITE, SOLARIZED_LIGHT, (250, 250, 250), (246, 248, 250)),
}


def layers(codes: str) -> dict[str, Colour]:
    """The text's colour (38) and the one behind it (48) in truecolour codes."""
    found = re.findall(r"([34]8);2;(\d+);(\d+);(\d+)", codes)
    return {layer: (int(red), int(green), int(blue)) for layer, red, green, blue in found}


@pytest.mark.parametrize("name", RICH_BACKGROUNDS)
def test_every_role_reaches_the_standard_in_truecolour(name: str) -> None:
    """WCAG AA: 4.5 to 1; code also on the backgrounds of changed lines."""
    rich = choose(Ui(theme=name), {"COLORTERM": "truecolor"})  # type: ignore[arg-type]
    behind = [layers(rich.codes[role])["48"] for role in ("added", "removed")]
    words: tuple[Role, ...] = ("code", "keyword", "string", "number", "comment", "muted")
    for role, codes in rich.codes.items():
        found = layers(codes)
        grounds = [found["48"]] if "48" in found else RICH_BACKGROUNDS[name]
        for ground in [*grounds, *(behind if role in words else [])]:
            if "38" in found:
                assert contrast(found["38"], ground) >= 4.5, f"{role} on {ground}"
    own = (222, 226, 230) if name == "dark" else (36, 41, 47)
    assert all(contrast(own, ground) >= 7 for ground in behind), "the terminal's own colour on a changed line"


def test_truecolour_is_used_where_the_background_is_known() -> None:
    deep = {"COLORTERM": "truecolor"}
    assert choose(Ui(theme="dark"), deep).is_rich and choose(Ui(), deep | {"COLORFGBG": "0;15"}).is_rich
    assert not choose(Ui(), deep).is_rich and not choose(Ui(theme="dark"), {}).is_rich
    assert not choose(Ui(theme="high-contrast"), deep).is_rich


def test_added_is_green_in_every_theme() -> None:
    green = {"dark": "32", "light": "38;5;22"}
    for name, codes in green.items():
        assert theme(name).codes["added"] == theme(name).codes["ok"] == codes
        red, most, blue = layers(choose(Ui(theme=name), {"COLORTERM": "24bit"}).codes["added_words"])["48"]  # type: ignore[arg-type]
        assert most > max(red, blue)


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_on_black_and_on_white_all_words_reach_the_standard(name: str) -> None:
    for background in set(BACKGROUNDS[name]) & {BLACK, WHITE}:
        for role, codes in theme(name).codes.items():
            if (colour := foreground(codes)) is not None and role not in MARKS:
                assert contrast(colour, background) >= 4.5, role


def test_what_stands_beside_the_answer_is_dim() -> None:
    for name in BACKGROUNDS:
        dim = {role for role, codes in theme(name).codes.items() if "2" in codes.split(";")}
        assert dim <= {"muted", "output", "reasoning", "ask"}
    assert "muted" not in theme("high-contrast").codes


def test_added_and_removed_lines_differ_in_every_theme() -> None:
    for name in BACKGROUNDS:
        codes = theme(name).codes
        assert codes.get("added", "") != codes.get("removed", "")
        assert codes["added_words"] != codes.get("added", "") and codes["removed_words"] != codes.get(
            "removed", ""
        )


ITEM = approval_item(
    "c",
    "shell",
    "t",
    "make",
    "command",
    "it may write anywhere",
    "mode ask",
    "",
    "{}",
    "",
    "all is lost",
    "outside",
)
READ = [
    (ev.Notice(level="warning", text="words to read"), "words to read"),
    (ev.Compacted(before=9, after=3, how="summary", summary="words to read"), "words to read"),
    (ev.OperationFailed(operation="undo", error=ev.ErrorInfo("x", "words to read", "do this")), "words to read"),
    (ev.TurnAborted(stop_reason="interrupted"), "Nothing lost"),
    (ev.RetryScheduled(attempt=2, delay_s=1, error=ev.ErrorInfo("x", "words to read"), discarded_chars=1), "ords to read"),
    (ev.Restored(kind="undo", turns=1, prompt="x", report=ev.RestoreReport((), (ev.Conflict("a", "words to read"),), ("note",))), "words to read"),
]  # fmt: skip


@each_row(("event", "words"), READ)
@each_row("name", BACKGROUNDS)
def test_sentences_are_neither_dim_nor_coloured(name: str, event: ev.AnyEvent, words: str) -> None:
    view = Renderer(theme(name), Ui(), lambda: 80, lambda: SNAPSHOT)
    view.handle(event)
    (look,) = re.findall(r"(?:\x1b\[([0-9;]*)m)?[^\x1b\n]*" + words, view.take())
    assert look in ("", "0", "3"), "nothing but italics"


def test_why_it_asks_is_neither_dim_nor_coloured() -> None:
    dialog = ApprovalDialog(ev.ApprovalRequested(request_id="r", items=(ITEM,)), 0.0)
    rows = dialog.draw(theme("dark"), 80, 20)
    assert "  it may write anywhere [mode ask]" in rows
    assert "  \x1b[33m!\x1b[0m It runs outside the sandbox, with all your rights." in rows


def test_several_looks_at_once() -> None:
    assert theme("dark").styled(("strong", "code"), "a\n\nb") == "\x1b[1;36ma\x1b[0m\n\n\x1b[1;36mb\x1b[0m"
    assert (
        theme("dark").painted([(("ok",), "a"), (("ok",), "b"), ((), "c"), (("muted",), "")])
        == "\x1b[32mab\x1b[0mc"
    )
    assert NONE.painted([(("ok",), "a"), ((), "b")]) == "ab" and NONE.styled(("ok",), "a") == "a"


def test_the_background_a_terminal_names_decides() -> None:
    assert choose(Ui(), {"COLORFGBG": "0;15"}) == theme("light")
    assert choose(Ui(), {"COLORFGBG": "15;0"}) == theme("dark") == choose(Ui(), {})
    assert choose(Ui(theme="none"), {}) == NONE


def test_every_role_is_known() -> None:
    for name in BACKGROUNDS:
        assert set(theme(name).codes) <= set(get_args(Role))
