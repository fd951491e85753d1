"""Every format has what it needs, for a review of each kind, and hostile texts do nothing in it."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import markdown_it
import pytest

from agent_cli.protocol.sanitize import clean, fenced
from agent_cli.review.finding import PreviousError, as_json, earlier_findings
from agent_cli.review.formats.all import FORMATS, rendered
from agent_cli.review.formats.inert import code, markdown
from tests.review.formats.reviews import DIFF, FULL, HEAD, HOSTILE, finding, hostile, review
from tests.rows import each_row

GOLDEN = Path(__file__).parent / "golden"
INCOMPLETE = review(stop_reason="cost_limit", error="the budget is spent")


@each_row("format", FORMATS)
def test_a_review_of_every_kind_of_finding(format: str) -> None:
    """Goldens lie beside this file; a change of them is a change of what others read."""
    text = re.sub(r'("version": |"semanticVersion": )"\d[^"]*"', r'\1"VERSION"', rendered(FULL, format), count=1)
    if format == "sarif":
        text = text.replace('"version": "VERSION"', '"version": "2.1.0"')
        text = re.sub(r'"semanticVersion": "[^"]*"', '"semanticVersion": "VERSION"', text)
    assert text == (GOLDEN / f"full.{format}").read_text(encoding="utf-8")


@each_row("format", FORMATS)
def test_the_head_is_named(format: str) -> None:
    assert HEAD[:12] in rendered(FULL, format) or format == "gitlab"


@each_row("format", FORMATS)
def test_an_incomplete_review_is_not_a_clean_one(format: str) -> None:
    text = rendered(INCOMPLETE, format)
    assert (text != rendered(review(), format) and "incomplete" in text.lower()) or '"complete": false' in text
    assert INCOMPLETE.exit_code == 5


@each_row("format", FORMATS)
def test_nothing_controls_a_terminal(format: str) -> None:
    text = rendered(hostile(), format)
    lines = text.split("\n")
    assert all(clean(line) == line or "\u200b" in line for line in lines)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)


def test_an_earlier_review_is_read_back() -> None:
    assert earlier_findings(rendered(FULL, "json").encode()) == FULL.findings
    value = as_json(FULL, "1")
    assert (value["type"], value["head"], value["target"]["diff"]) == ("review", HEAD, DIFF)


@each_row(
    ("field", "value"),
    [("id", "--> @everyone"), ("priority", 9), ("priority", -1), ("confidence", 2), ("start_line", 0),
     ("title", "x" * 1_000_000)],
)  # fmt: skip
def test_a_damaged_or_hostile_earlier_review_is_refused(field: str, value: Any) -> None:
    damaged = as_json(FULL, "1")
    damaged["findings"][0][field] = value
    with pytest.raises(PreviousError, match=field):
        earlier_findings(json.dumps(damaged).encode())


# GitHub's workflow commands


def test_no_line_for_people_is_a_command() -> None:
    text = rendered(hostile(), "text")
    assert not re.search(r"^\s*::|##\[", text, re.MULTILINE) and "##[" not in rendered(hostile(), "github")


def _commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Return commands as the runner reads them."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line)
        assert match, line
        pairs = (pair.split("=", 1) for pair in match[2].split(","))
        found.append((match[1], {key: _unescaped(value) for key, value in pairs}, _unescaped(match[3])))
    return found


def _unescaped(text: str) -> str:
    for sequence, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(sequence, char)
    return text


def test_no_text_begins_another_command() -> None:
    found = _commands(rendered(hostile(), "github"))
    assert {name for name, _, _ in found} == {"error", "warning", "notice"}
    assert len(found) == 2 + len(HOSTILE)
    comma = next(about for _, about, _ in found if about["title"] == "P2 a,b:c")
    assert comma["file"] == "a,b:c"


def test_of_each_level_ten_are_shown_and_the_rest_is_counted() -> None:
    many = [finding(f"Bug {at}", id=f"{at:016x}", priority=2) for at in range(14)]
    found = _commands(rendered(review(*many, finding("Grave", priority=0)), "github"))
    assert [name for name, _, _ in found] == ["warning"] * 10 + ["error", "notice"]
    assert "4 of them are not annotated here" in found[-1][2]


# Pull requests


def test_what_is_outside_the_diff_never_becomes_a_comment() -> None:
    value = json.loads(rendered(FULL, "pr-review"))
    assert set(value) == {"commit_id", "event", "body", "comments"}
    assert (value["commit_id"], value["event"]) == (HEAD, "COMMENT")
    assert [(each["path"], each["line"], each["side"]) for each in value["comments"]] == [
        ("src/a.py", 3, "RIGHT"), ("src/a.py", 6, "LEFT"),
    ]  # fmt: skip
    assert (value["comments"][1]["start_line"], value["comments"][1]["start_side"]) == (5, "LEFT")
    assert "Elsewhere" in value["body"] and "Known" in value["body"] and "Gone" not in value["body"]


def test_a_later_run_finds_the_fingerprints() -> None:
    body = json.loads(rendered(FULL, "pr-review"))["body"]
    known = json.loads(re.match(r"<!-- agent-review (\{.*?\}) -->\n", body)[1])  # type: ignore[index]
    assert known["head"] == HEAD and known["ids"] == [each.id for each in FULL.open_findings]


def test_a_long_review_fits_one_request() -> None:
    many = [finding(f"Bug {at}", id=f"{at:016x}", body="y" * 4000, in_diff=False) for at in range(100)]
    value = json.loads(rendered(review(*many), "pr-review"))
    assert len(value["body"]) < 65_536 and value["body"].endswith("The rest is in the file of the review.")


def _html(text: str) -> str:
    return str(markdown_it.MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text))


@each_row("text", HOSTILE)
def test_markdown_shows_a_text_and_does_nothing_else(text: str) -> None:
    html = _html(markdown(text))
    assert set(re.findall(r"<(/?\w+)", html)) <= {"p", "/p", "code", "/code", "br"}
    assert not re.search(r"@\w|#\d|GH-\d|://|www\.", re.sub(r"<code>.*?</code>", "", html))


@each_row("text", HOSTILE)
def test_nothing_closes_a_fence_or_a_code_span(text: str) -> None:
    assert _html(fenced(clean(text), "text")).count("<pre>") == 1
    assert re.fullmatch(
        r"<pre><code class=\"language-text\">[^<]*</code></pre>\n", _html(fenced(clean(text), "text"))
    )
    assert re.fullmatch(r"<p><code>[^<]*</code></p>\n", _html(code(text)))


def test_the_marker_is_the_only_comment_in_a_hostile_review() -> None:
    value = json.loads(rendered(hostile(), "pr-review"))
    assert value["body"].count("<!--") == 1
    html = "".join(_html(each["body"]) for each in (value, *value["comments"]))
    assert not re.search(r"<(img|a|script|details|h1|table|input)\b", html)


# SARIF, rdjsonl, GitLab

_LOCATION = {
    "type": "object", "required": ["physicalLocation"],
    "properties": {"physicalLocation": {
        "type": "object", "required": ["artifactLocation", "region"],
        "properties": {
            "artifactLocation": {"type": "object", "properties": {
                "uri": {"type": "string", "pattern": r"^(?![/~])(?!\.\./)[A-Za-z0-9._/%~-]+$"}}},
            "region": {"type": "object", "required": ["startLine"], "properties": {
                "startLine": {"type": "integer", "minimum": 1}, "endLine": {"type": "integer", "minimum": 1}}},
        },
    }},
}  # fmt: skip
_SARIF = {
    "type": "object", "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "maxItems": 1, "items": {
            "type": "object", "required": ["tool", "results", "invocations"],
            "properties": {
                "tool": {"type": "object", "properties": {"driver": {
                    "type": "object", "required": ["name", "rules"], "properties": {"rules": {"items": {
                        "required": ["id", "shortDescription", "fullDescription", "help"]}}}}}},
                "invocations": {"items": {"required": ["executionSuccessful"]}},
                "results": {"items": {
                    "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
                    "properties": {
                        "level": {"enum": ["error", "warning", "note", "none"]},
                        "locations": {"type": "array", "minItems": 1, "items": _LOCATION},
                        "fixes": {"items": {"required": ["artifactChanges"]}},
                    }}},
            }}},
    },
}  # fmt: skip
"""What the standard and GitHub ask of the parts that are written here."""


@pytest.mark.parametrize("which", ["full", "hostile", "empty"])
def test_sarif_keeps_to_the_standard(which: str) -> None:
    value: dict[str, Any] = json.loads(
        rendered({"full": FULL, "hostile": hostile(), "empty": review()}[which], "sarif")
    )
    jsonschema.validate(value, _SARIF)
    run = value["runs"][0]
    for each in run["results"]:
        assert run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        text = each["message"]["text"]
        assert "](" not in text and not re.search(r"(?<!\{)(?:\{\{)*\{\d", text)


def test_every_diagnostic_of_rdjsonl_stands_alone() -> None:
    found = [json.loads(line) for line in rendered(hostile(), "rdjsonl").splitlines()]
    assert len(found) == 1 + len(HOSTILE) and found[0]["code"] == {"value": "incomplete-review"}
    for each in found[1:]:
        assert each["location"]["path"] and each["location"]["range"]["start"]["line"] >= 1
        assert each["severity"] in ("ERROR", "WARNING", "INFO")


def test_every_issue_of_gitlab_has_its_fields_and_its_own_fingerprint() -> None:
    found = json.loads(rendered(hostile(), "gitlab"))
    assert len({each["fingerprint"] for each in found}) == len(found) == 1 + len(HOSTILE)
    for each in found:
        assert set(each) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert each["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert each["location"]["lines"]["begin"] >= 1 and "\n" not in each["description"]
    assert json.loads(rendered(review(), "gitlab")) == []
