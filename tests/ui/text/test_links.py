"""Links that a terminal opens: where they are known to work, and what they may lead to."""

from agent_cli.config.schema import Ui
from agent_cli.ui.text import lines
from agent_cli.ui.text.links import is_supported, linked, may_link
from agent_cli.ui.text.theme import choose
from tests.rows import each_row

VSCODE = {"TERM_PROGRAM": "vscode", "TERM_PROGRAM_VERSION": "1.95.2"}


@each_row(
    ("environ", "works"),
    [
        ({}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm", "TERM_PROGRAM": "Apple_Terminal", "TERM_PROGRAM_VERSION": "453"}, False),
        (VSCODE, True),
        ({"TERM_PROGRAM": "vscode", "TERM_PROGRAM_VERSION": "1.71.0"}, False),
        ({"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.0.15"}, False),
        ({"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.5.0beta2"}, True),
        ({"TERM_PROGRAM": "iTerm.app"}, False),
        ({"TERM_PROGRAM": "WezTerm", "TERM_PROGRAM_VERSION": "20240203-110809-5046fc22"}, True),
        ({"TERM_PROGRAM": "ghostty"}, True),
        ({"VTE_VERSION": "5001"}, False),
        ({"VTE_VERSION": "7600"}, True),
        ({"KONSOLE_VERSION": "200800"}, False),
        ({"KONSOLE_VERSION": "210403"}, True),
        ({"KITTY_WINDOW_ID": "1"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"WT_SESSION": "0-1"}, True),
        ({"ALACRITTY_WINDOW_ID": "9"}, True),
        ({**VSCODE, "TMUX": "/tmp/x,1,0"}, False),
        ({"TERM": "tmux-256color", "VTE_VERSION": "7600"}, False),
        ({"TMUX": "x", "TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "3.3a"}, False),
        ({"TMUX": "x", "TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "3.4"}, True),
        ({"TMUX": "x", "TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "next-3.6"}, True),
        ({"STY": "1.pts", "KITTY_WINDOW_ID": "1"}, False),
        ({"TERM": "screen.xterm-256color", "WT_SESSION": "1"}, False),
    ],
)
def test_terminals_that_are_known_to_open_links(environ: dict[str, str], works: bool) -> None:
    assert is_supported(environ) == works


@each_row(
    ("target", "may"),
    [
        ("https://a.b/c?d=e#f@g", True),
        ("HTTP://a.b:8080", True),
        ("http://[::1]/x", True),
        ("mailto:me@x.y", True),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
        ("ssh://host", False),
        ("", False),
        ("../page.md", False),
        ("https://", False),
        ("https://user:secret@host/", False),
        ("https://good.com@evil.com", False),
        ("https://good.com\\@evil.com", False),
        ("https://a.b/\x1b[2J", False),
        ("https://a.b/\x07", False),
        ("https://a.b/\n", False),
        ("https://a.b/ü", False),
        ("https://a.b/c d", False),
        ("https://a.b/" + "x" * 3000, False),
    ],
)
def test_what_a_link_may_lead_to(target: str, may: bool) -> None:
    assert may_link(target) == may
    assert (linked("text", target) != "text") == may


def test_a_link_takes_no_columns() -> None:
    assert lines.cells(linked("\x1b[4mtext\x1b[0m", "https://a.b")) == 4
    assert lines.plain(linked("text", "https://a.b")) == "text"


@each_row(
    ("settings", "environ", "has"),
    [
        (Ui(), VSCODE, True),
        (Ui(), {}, False),
        (Ui(links="off"), VSCODE, False),
        (Ui(links="on"), {}, True),
        (Ui(links="on"), {"NO_COLOR": "1"}, False),
        (Ui(links="on", plain=True), {}, False),
        (Ui(links="on", theme="none"), {}, False),
        (Ui(links="on"), {"TERM": "dumb"}, False),
        (Ui(theme="light"), {**VSCODE, "COLORTERM": "truecolor"}, True),
    ],
)
def test_links_are_a_setting_and_need_colours(settings: Ui, environ: dict[str, str], has: bool) -> None:
    assert choose(settings, environ).links == has
