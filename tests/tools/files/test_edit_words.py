"""Edits whose passage is also the tail or the head of a longer name, stands in aligned text, or in a block that
occurs twice: made at the place that is meant, or refused with the places shown; never made elsewhere."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from agent_cli.tools.files.file_change import Edit
from agent_cli.tools.files.replace_text import with_edits
from agent_cli.tools.kit.base import ToolError
from tests.rows import each_row


class Case(NamedTuple):
    name: str
    text: str
    old: str
    new: str
    wanted: str | None
    """None: it is ambiguous, so that it has to be refused."""


NAMES = [
    ("retries", "max_retries"), ("timeout", "timeout_ms"), ("name", "username"), ("size", "font_size"),
    ("port", "export"), ("key", "key_file"), ("user", "superusers"),
]  # fmt: skip
"""A name, and a longer one that begins or ends with it or has it inside."""
KINDS: dict[str, str] = {
    "python": "{pad}{name}{blank} = {value}\n",
    "yaml": "{pad}{name}:{blank} {value}\n",
    "go": '{pad}{name}{blank} int `json:"{value}"`\n',
    "css": "{pad}{name}{blank}: {value};\n",
    "make": "{pad}{name}{blank} := {value}\n",
}
"""A line that sets a name, in the form of a language; `blank` aligns it with longer ones."""
DRIFTS = ["as it is", "alignment collapsed", "alignment widened", "blanks at the end"]


def _line(kind: str, name: str, width: int, value: int, pad: str = "") -> str:
    return KINDS[kind].format(pad=pad, name=name, blank=" " * (width - len(name)), value=value)


def _drifted(line: str, drift: str) -> str:
    """A line as a model writes it from memory."""
    body = line.rstrip("\n")
    if drift == "alignment collapsed":
        return re.sub(r"(?<=\S) {2,}", " ", body)
    if drift == "alignment widened":
        return re.sub(
            r"(?<=\S) +(?=\S)", lambda found: found.group() + "  " if len(found.group()) > 1 else " ", body
        )
    return body + "  " if drift == "blanks at the end" else body


def _named() -> Iterator[Case]:
    for (short, long), kind, drift, order in itertools.product(NAMES, KINDS, DRIFTS, (0, 1)):
        pad = "    " if kind in ("go", "css") else ""
        width = max(len(short), len(long))
        lines = {name: _line(kind, name, width, 3, pad) for name in (short, long)}
        both = [lines[short], lines[long]][:: -1 if order else 1]
        text = "".join(["first\n", *both, "last\n"])
        old = _drifted(lines[short].strip(), drift)
        wanted = text.replace(lines[short], _line(kind, short, width, 5, pad))
        if wanted.count("3") != 1:  # the longer line holds the shorter one to the letter: replaced by lines
            wanted = "".join(
                [
                    "first\n",
                    *(_line(kind, short, width, 5, pad) if it is lines[short] else it for it in both),
                    "last\n",
                ]
            )
        yield Case(f"{kind} {short}/{long} {drift} {order}", text, old, old.replace("3", "5"), wanted)


def _only_inside() -> Iterator[Case]:
    """The short name is not there at all: nothing may be changed."""
    for (short, long), kind in itertools.product(NAMES, KINDS):
        text = f"first\n{_line(kind, long, len(long), 3)}last\n"
        old = _line(kind, short, len(short), 3).rstrip("\n")
        inside = Case(f"{kind} only {long}", text, old, old.replace("3", "5"), None)
        yield inside
        yield inside._replace(name=f"{kind} only {long}, a word", old=short, new="other")


def _repeated() -> Iterator[Case]:
    block = "    if value:\n        total   = 1\n        return total\n"
    for drift, known in itertools.product(DRIFTS, (True, False)):
        text = f"def one(value):\n{block}\ndef two(value):\n{block}"
        body = "\n".join(_drifted(line, drift) for line in block.splitlines())
        head = _drifted("def two(value):", drift) + "\n" if known else ""
        wanted = text[: text.index("def two")] + text[text.index("def two") :].replace("= 1", "= 2")
        yield Case(
            f"repeated {drift} {known}",
            text,
            head + body,
            head + body.replace("= 1", "= 2"),
            wanted if known else None,
        )


CASES = [*_named(), *_only_inside(), *_repeated()]


def _outcome(case: Case) -> str | None:
    try:
        return with_edits(case.text, (Edit(case.old, case.new),), "f").text
    except ToolError:
        return None


def test_edits_beside_longer_names_are_made_where_they_are_meant_or_refused() -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for case in CASES:
        made = _outcome(case)
        counts["right" if made == case.wanted else "refused" if made is None else "wrong"] += 1
        if made not in (None, case.wanted):
            wrong.append((case.name, made))
    assert not wrong
    clear = sum(case.wanted is not None for case in CASES)
    assert len(CASES) >= 300 and counts["refused"] <= 0.05 * clear, counts


def test_a_refusal_shows_the_places_inside_longer_words() -> None:
    text = "max_retries = 3\nold_retries = 3\n"
    with pytest.raises(
        ToolError, match=r"only inside longer words, lines 1, 2\. .*\n1\tmax_retries = 3\n2\told"
    ) as told:
        with_edits(text, (Edit("retries = 3", "retries = 5"),), "f")
    assert "Nothing was changed" in str(told.value)


def test_replace_all_takes_whole_words_and_names_the_rest() -> None:
    text = "user = 1\nsuperuser = user\nusers = [user]\n"
    made = with_edits(text, (Edit("user", "account", replace_all=True),), "f")
    assert made.text == "account = 1\nsuperuser = account\nusers = [account]\n"
    assert made.note.endswith("Left as they are inside longer words: lines 2, 3.")


@each_row(
    ("text", "old", "new"),
    [
        ("你好世界\n", "世界", "朋友"), ("これはペンです\n", "ペン", "本"), ("ภาษาไทย\n", "ไทย", "ลาว"),
        ('print("a\\nretries")\n', "retries", "tries"), ("a.b_c(x)\n", "b_c(", "d("), ("x=3px\n", "=3px", "=4px"),
    ],
)  # fmt: skip
def test_words_end_where_the_script_or_an_escape_says(text: str, old: str, new: str) -> None:
    assert with_edits(text, (Edit(old, new),), "f").text == text.replace(old, new)
