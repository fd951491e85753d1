"""Text given to the model when a skill is called: its body with arguments, and a list of its files."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from agent_cli.policy.rules.foreign_rules import allow_rules
from agent_cli.protocol.messages import Message, ToolResult, UserMessage
from agent_cli.protocol.operations import AttachedText
from agent_cli.protocol.sanitize import quotable

from ..expansion import expand, with_variables
from .skill import FILE_NAMES, TOOL_NAME, Skill, SkillText

_MOST_FILES = 100
_DEEPEST = 4
_SKIPPED = (".git", "node_modules", "__pycache__")
_CLOSING = "\n</skill>"
_SHORTENED = re.compile(r"\[… [^\n\[]* left out")


class SkillContext(msgspec.Struct, frozen=True):
    """The project and session in which a skill is called."""

    project: str
    session: str
    """Session id; empty if not known yet."""


def skill_content(
    skill: Skill, file: SkillText, argument: str, setting: SkillContext, *, trusted: bool, doubtful: bool = False
) -> AttachedText:
    """Return the content that a skill call adds to the conversation.

    Args:
        skill: the skill.
        file: its file in its current state.
        argument: the text written after its name.
        setting: where it is called.
        trusted: whether the calls that it wants allowed may be.
        doubtful: whether its text may come from an untrusted source and is data.
    """
    variables = _variables(skill, setting)
    body = _literal_digits(skill, argument, _inner(file.body))
    found = expand(body, argument, "claude", names=file.head.arguments, variables=variables)
    version = hashlib.sha256(found.text.encode("utf-8", "replace")).hexdigest()[:12]
    opening = f'<skill name="{skill.name}" folder="{quotable(skill.folder)}" version="{version}">\n'
    text = f"{opening}{found.text}{_CLOSING}{_beside(skill.folder)}"
    moved = tuple(msgspec.structs.replace(each, at=each.at + len(opening)) for each in found.insertions)
    source = f"the skill {skill.path}, written by a command after untrusted text was read" if doubtful else ""
    rules = (with_variables(each, variables) for each in file.head.allowed_tools)
    allowed = tuple(allow_rules(rules)) if trusted and not doubtful else ()
    return AttachedText(skill.name, text, moved, allowed, source)


def is_given(text: str, messages: Iterable[Message]) -> bool:
    """Return True if messages that are still sent contain the complete text of a call."""
    opening = text[: text.index("\n") + 1]
    return any(
        opening in given and _CLOSING in given and not _SHORTENED.search(given) for given in _given(messages)
    )


def _given(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, ToolResult) and message.tool == TOOL_NAME:
            yield message.text
        elif isinstance(message, UserMessage):
            yield from (each.text for each in message.attachments)


def _variables(skill: Skill, setting: SkillContext) -> dict[str, str]:
    return {
        "CLAUDE_SKILL_DIR": skill.folder,
        "CLAUDE_PROJECT_DIR": setting.project,
        **({"CLAUDE_SESSION_ID": setting.session} if setting.session else {}),
        **skill.place.variables,
    }


def _literal_digits(skill: Skill, argument: str, body: str) -> str:
    """Escape `$1` and similar if a skill takes no arguments and got none: they belong to a script that it
    shows."""
    if argument or skill.head.hint or skill.head.arguments:
        return body
    return re.sub(r"(?<!\\)\$(?=\d(?!\d))", r"\\$", body)


def _beside(folder: str) -> str:
    """Return a text listing the files in a skill's folder."""
    files = sorted(_files(Path(folder)))
    shown = files[:_MOST_FILES]
    if not shown:
        return ""
    more = f", and {len(files) - len(shown)} more" if len(files) > len(shown) else ""
    return f"\nFiles in its folder, to read or run when the skill says so: {', '.join(shown)}{more}"


def _files(top: Path) -> Iterator[str]:
    left = 10 * _MOST_FILES
    for folder, folders, names in os.walk(top):
        depth = len(Path(folder).relative_to(top).parts)
        folders[:] = sorted(name for name in folders if name not in _SKIPPED) if depth < _DEEPEST else []
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), top)
            if path not in FILE_NAMES and path.isprintable():
                yield path
                left -= 1
                if left == 0:
                    return


def _inner(text: str) -> str:
    """Escape the closing tag of the enclosing element in a text."""
    return re.sub(r"</(?=\s*skill\b)", "<\\\\/", text, flags=re.IGNORECASE)
