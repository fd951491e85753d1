"""Code in colours, line by line: what spans lines is one on all of them, nothing is lost, and no line costs more."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.ui.markdown.highlight import CodeLines
from agent_cli.ui.text.theme import NONE, choose
from tests.costs import assert_linear
from tests.fuzz import tries
from tests.rows import each_row

DARK = choose(Ui(theme="dark"), {})
SGR = re.compile(r"\x1b\[[0-9;]*m")
STRING, COMMENT, KEYWORD = "\x1b[32m", "\x1b[3m", "\x1b[36m"
LANGUAGES = [
    "python", "js", "ts", "tsx", "go", "c", "cpp", "java", "rust", "html", "css", "sh", "sql", "yaml", "json", "diff",
    "php", "lua", "ruby", "haskell", "ocaml", "kotlin", "swift", "toml", "dockerfile", "make", "perl", "xml", "console",
    "nosuchlanguage", "",
]  # fmt: skip


def coloured(language: str, text: str) -> list[str]:
    code = CodeLines(language)
    return [code.line(line, DARK) for line in text.split("\n")]


@each_row(
    ("language", "text", "role"),
    [
        ("python", 'x = """a\nif b\nc"""\nif d: pass', STRING),
        ("python", "f('''a\nif b\nc''')\nif d: pass", STRING),
        ("js", "x = `a\nif b\nc`\nif (d) {}", STRING),
        ("go", "x := `a\nif b\nc`\nif d {}", STRING),
        ("js", "/* a\nif b\nc */\nif (d) {}", COMMENT),
        ("c", "/* a\nif b\nc */\nif (d) {}", COMMENT),
        ("java", "/** a\nif b\nc */\nif (d) {}", COMMENT),
        ("go", "/* a\nif b\nc */\nif d {}", COMMENT),
        ("css", "/* a\nif b\nc */\na { color: red }", COMMENT),
        ("rust", "/* a\nif b\nc */\nif d {}", COMMENT),
        ("html", "<!-- a\nif b\nc -->\n<b>d</b>", COMMENT),
        ("sql", "/* a\nif b\nc */\nSELECT d", COMMENT),
        ("lua", "--[[ a\nif b\nc ]]\nif d then end", COMMENT),
        ("sh", 'echo "a\nif b\nc"\nif d; then e; fi', STRING),
    ],
)
def test_what_spans_lines_looks_the_same_on_all_of_them(language: str, text: str, role: str) -> None:
    first, middle, last, after = coloured(language, text)
    assert role in first and middle == f"{role}if b\x1b[0m" and last.startswith(f"{role}c")
    assert KEYWORD in after, "and it is over where it ends"


@each_row(
    ("language", "line"),
    [("js", 'x = "/*"'), ("c", 'char *x = "/*";'), ("c", "int x; // /*"), ("python", "x = '\"\"\"'"),
     ("sh", "ls /* `pwd`"), ("js", "x = 1 /* y */ + 2"), ("python", "# '''"), ("yaml", "a: /*")],
)  # fmt: skip
def test_what_only_looks_like_a_beginning_begins_nothing(language: str, line: str) -> None:
    word = {"sh": "if", "yaml": "b: 1"}.get(language, "return")
    assert coloured(language, f"{line}\n{word}")[1].startswith(KEYWORD)


@given(
    language=st.sampled_from(LANGUAGES),
    lines=st.lists(
        st.text(st.sampled_from("\"'`/*-<!>{}()[]#\\$ab if=\t%|") | st.characters(codec="utf-8")), max_size=6
    ),
)
@settings(max_examples=tries(300), deadline=None)
def test_no_sign_is_lost_in_any_language(language: str, lines: list[str]) -> None:
    lines = [re.sub(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", "", line) for line in lines]
    code = CodeLines(language)
    for line in lines:
        glimpse = code.partial_line(line, DARK)
        assert code.partial_line(line, DARK) == glimpse, "looking changes nothing"
        assert code.line(line, DARK) == glimpse
        assert SGR.sub("", glimpse) == line


def test_without_colours_code_is_as_it_was() -> None:
    code = CodeLines("python")
    assert code.line('x = """', NONE) == 'x = """'


@each_row("language", LANGUAGES)
def test_each_line_costs_the_same(language: str) -> None:
    for line in ("/*" * 100, '"' * 225, "`" * 225, "(/a" * 75, "f'{" * 75, "<a " * 75, "$((" * 75, "x" * 2500):
        coloured(language, line)  # what is loaded once
        assert_linear(lambda lines: coloured(language, f"{line}\n" * lines), 1)  # noqa: B023
