"""Reviews for tests of formats."""

from typing import Any

import msgspec

from agent_cli.review.finding import Evidence, Finding, Omitted, Refuted, Review, Suggestion, Target

HEAD = "1111111111111111111111111111111111111111"
DIFF = "d" * 64


def finding(title: str = "Division by zero", **more: Any) -> Finding:
    """Return a finding."""
    value = {
        "id": "00000000000000aa", "rule": "logic", "priority": 1, "confidence": 0.9, "body": "x may be 0.",
        "path": "src/a.py", "start_line": 3, "end_line": 3,
    }  # fmt: skip
    return Finding(**{**value, "title": title, **more})


def review(*findings: Finding, **more: Any) -> Review:
    """Return a review."""
    value: dict[str, Any] = {"files": ("src/a.py",)}
    target = Target("base", "the commits of HEAD that main does not have", HEAD, "2" * 40, DIFF)
    return Review(**{"target": target, "findings": findings, **value, **more})


FULL = review(
    finding(
        evidence=(Evidence("command", "$ grep -n f\nsrc/b.py:1: f(0)"),),
        suggestion=Suggestion("    return 1 / x if x else 0"),
    ),
    finding("Two lines", id="00000000000000bb", priority=2, start_line=5, end_line=6, side="LEFT"),
    finding(
        "Elsewhere", id="00000000000000cc", priority=3, path="src/b.py", in_diff=False, introduced="pre_existing"
    ),
    finding("Known", id="00000000000000dd", status="still_open", is_checked=False),
    finding("Gone", id="00000000000000ee", status="fixed"),
    finding("Unwanted", id="00000000000000ff", status="dismissed"),
    refuted=(Refuted(finding("Wrong", id="0000000000000011"), "there is a guard"),),
    omitted=(Omitted("logo.png", "a binary file"),),
)
"""One finding of each kind."""

HOSTILE = (
    "::error file=x::owned", "a\r\n::warning::b", "\x1b[31mred\x1b]0;title\x07", "%0A::error::c", "\u202egnp.exe",
    "<img src=x onerror=alert(1)>", "-->", "![x](https://evil.example/?q=1)", "@everyone see #1 and GH-2",
    "[click](https://evil.example)", "```\n::error::d", "{0} and {{1}}", "# title\n\n- [ ] task", "a,b:c", "\ud800",
    "</details><script>", "www.evil.example", "`code` `` ` ``", "~~~\nx", "| a | b |\n|---|---|", "a ##[error]e",
)  # fmt: skip
"""Texts that mean something to a terminal, a runner or a renderer."""


def hostile() -> Review:
    """Return a review that consists of such texts, as they are before anything made them safe."""
    found = tuple(
        finding(
            text, id=f"{at:016x}", body=text, path=text, evidence=(Evidence("code", text),),
            in_diff=at % 2 == 0, suggestion=Suggestion(text), priority=1 + at % 3,
        )
        for at, text in enumerate(HOSTILE)
    )  # fmt: skip
    return review(
        *found, omitted=tuple(Omitted(text, text) for text in HOSTILE), stop_reason="cost_limit", error=HOSTILE[0]
    )


def unchanged(value: Any) -> Any:
    """Return data as JSON gives it back."""
    return msgspec.json.decode(msgspec.json.encode(value))
