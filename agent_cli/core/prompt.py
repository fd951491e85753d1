"""The texts around the conversation: the system prompt, made once per session, and the facts of the moment
that travel with the newest user message so that everything before it stays the same to the byte."""

import os
import re
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from ..protocol.messages import UserMessage
from ..workspace.git_folder import git_folder
from ..workspace.instructions import Instruction
from ..workspace.small_files import first_line

_PROMPTS = Path(__file__).parent / "prompts"


def system_prompt(
    root: Path,
    instructions: Sequence[Instruction],
    tools: Collection[str],
    *,
    extra_roots: Sequence[Path] = (),
    append: str = "",
) -> str:
    """The system prompt of a new session. `instructions` are the project's own files; advice on
    tools that are not among `tools` is left out."""
    parts = [
        _for_tools((_PROMPTS / "system.md").read_text(encoding="utf-8").strip(), tools),
        _environment(root, extra_roots),
    ]
    for each in instructions:
        parts.append(f"# Instructions from {each.path}\n{each.text}")
    if append:
        parts.append(append.strip())
    return "\n\n".join(parts)


def _for_tools(text: str, tools: Collection[str]) -> str:
    """`text` without the lines `- [TOOL] …` of tools that are not offered; the others lose their mark."""
    kept = []
    for line in text.splitlines():
        marked = re.match(r"- \[(\w+)\] ", line)
        if marked is None:
            kept.append(line)
        elif marked.group(1) in tools:
            kept.append(f"- {line[marked.end() :]}")
    return "\n".join(kept)


def _environment(root: Path, extra_roots: Sequence[Path]) -> str:
    lines = ["# Environment", f"- Workspace: {root}"]
    lines += [f"- Further folder: {folder}" for folder in extra_roots]
    system = os.uname()
    lines.append(f"- System: {system.sysname} {system.machine}")
    return "\n".join(lines)


def moment(root: Path, earlier: Sequence[UserMessage]) -> str:
    """Date and git branch, or what of it has changed since an earlier message said so."""
    facts = [f"Date: {time.strftime('%Y-%m-%d')}", f"Git: {_branch(root)}"]
    told = {line for message in earlier for line in message.context.splitlines()}
    latest: dict[str, str] = {}
    for message in earlier:
        for line in message.context.splitlines():
            latest[line.partition(":")[0]] = line
    new = [fact for fact in facts if fact not in told or latest.get(fact.partition(":")[0]) != fact]
    return "\n".join(new)


def _branch(root: Path) -> str:
    """The branch checked out, read from `.git` without starting a process."""
    try:
        place = git_folder(root)
        if place is None:
            return "no repository"
        head = first_line(os.path.join(place.own, "HEAD"))
    except OSError:
        return "unreadable repository"
    if re.fullmatch(r"[0-9a-f]{40,64}", head):
        return f"detached at {head[:10]}"
    found = re.fullmatch(r"ref: refs/heads/([^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+)", head)
    return f"on branch {found.group(1)}" if found else "unreadable repository"
