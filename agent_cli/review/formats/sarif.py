"""SARIF 2.1.0, as read by GitHub code scanning and other tools.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; GitHub Docs, "SARIF support for
code scanning". In messages a brace is doubled (3.11.5), and `](` would begin a link (3.11.6).
"""

from typing import Any
from urllib.parse import quote

from agent_cli import __version__
from agent_cli.protocol.sanitize import clean

from ..finding import Finding, Review
from .inert import place_of, stray
from .text import incomplete

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = ("error", "error", "warning", "note")


def sarif(review: Review) -> dict[str, Any]:
    """Return a review as a SARIF log with one run."""
    rules = sorted({each.rule for each in review.open_findings})
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "agent-cli review",
                "semanticVersion": __version__,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "automationDetails": {"id": "agent-review/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(review)],
        "results": [_result(each, review, rules.index(each.rule)) for each in review.open_findings],
        "properties": {
            "head": review.target.head,
            "base": review.target.base,
            "diff": review.target.diff,
            "complete": review.is_complete,
        },
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: str) -> dict[str, Any]:
    words = rule.replace("-", " ").capitalize()
    text = {"text": words}
    return {
        "id": rule,
        "shortDescription": text,
        "fullDescription": text,
        "help": {"text": f"{words}: see the message of the result."},
        "defaultConfiguration": {"level": "warning"},
    }


def _invocation(review: Review) -> dict[str, Any]:
    value: dict[str, Any] = {"executionSuccessful": review.is_complete, "exitCode": review.exit_code}
    notes = [why] if (why := incomplete(review)) else []
    notes += [f"Not reviewed: {each.path}: {each.reason}" for each in review.omitted]
    if notes:
        value["toolExecutionNotifications"] = [
            {"level": "error" if note == why else "note", "message": {"text": message(note)}} for note in notes
        ]
    return value


def _result(finding: Finding, review: Review, rule_index: int) -> dict[str, Any]:
    path, start, end = place_of(finding, review)
    artifact = {"uri": quote(path), "uriBaseId": "%SRCROOT%"}
    text = "\n\n".join(filter(None, (finding.title + stray(finding), finding.body)))
    value: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.priority],
        "message": {"text": message(text)},
        "locations": [
            {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": start, "endLine": end}}}
        ],
        "partialFingerprints": {"primaryLocationLineHash": f"{finding.id}:1", "agentReview/v1": finding.id},
        "properties": {
            "priority": finding.priority,
            "confidence": finding.confidence,
            "introduced": finding.introduced,
            "status": finding.status,
            "checked": finding.is_checked,
        },
    }
    if finding.suggestion is not None:
        replacement = {
            "deletedRegion": {"startLine": start, "endLine": end},
            "insertedContent": {"text": finding.suggestion.replacement},
        }
        value["fixes"] = [
            {
                "description": {"text": message(f"Fix: {finding.title}")},
                "artifactChanges": [{"artifactLocation": artifact, "replacements": [replacement]}],
            }
        ]
    return value


def message(text: str) -> str:
    """Return text for a message, without placeholders and links."""
    return clean(text).replace("{", "{{").replace("}", "}}").replace("](", "] (")
