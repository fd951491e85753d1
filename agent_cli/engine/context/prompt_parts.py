"""What the model is sent besides the conversation: the system prompt, built once per session, and additions to the
newest user message, which leave everything before it unchanged byte for byte. Additions are current facts and
every instruction and memory that changed since the model last saw it."""

import os
import re
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import first_line
from agent_cli.protocol.actions import Mode
from agent_cli.protocol.messages import Attachment, Message, ToolResult, UserMessage
from agent_cli.protocol.records import Header
from agent_cli.protocol.sanitize import quotable
from agent_cli.session.placeholders import mark_untrusted
from agent_cli.workspace.files.reader import content_hash
from agent_cli.workspace.git.repository import git_folder
from agent_cli.workspace.instructions import Instruction, InstructionFiles
from agent_cli.workspace.memory import Block, Memory

_PROMPTS = Path(__file__).parent / "prompts"
REPLACED: Mapping[str, str] = {"*": ""}
"""Value of `told` when the user replaced the system prompt: neither instructions nor memory are ever sent."""


class SystemPrompt(msgspec.Struct, frozen=True):
    """The system prompt of a session."""

    text: str
    told: dict[str, str]
    """Source of each instruction and memory in it → hash of its text."""


class PromptAdditions(msgspec.Struct, frozen=True):
    """New information to send with a message; `text` is empty if there is none."""

    text: str
    told: dict[str, str]
    """Like `SystemPrompt.told`, for what `text` adds; an empty hash if the source is gone."""
    untrusted: str = ""
    """Source of untrusted text in it; empty if there is none."""

    @property
    def origin(self) -> tuple[Attachment, ...]:
        """An empty attachment that records untrusted text in the message."""
        return (Attachment("instructions", "", untrusted=self.untrusted),) if self.untrusted else ()


NOTHING_NEW = PromptAdditions("", {})


def init_prompt(focus: str = "") -> str:
    """Return the prompt that makes the model write the project's AGENTS.md; `focus` is added in the user's
    words."""
    text = (_PROMPTS / "init.md").read_text(encoding="utf-8").strip()
    return f"{text}\n\nThe user adds: {focus.strip()}" if focus.strip() else text


_MEMORY = "# Memory\nSaved earlier and possibly outdated: files and the user take precedence."


def _for_tools(text: str, tools: Collection[str]) -> str:
    """Return `text` without the lines `- [TOOL, …] …` of tools that are not offered; the marks of the others are
    removed. `{}` in such a line stands for those of its tools that are offered."""
    kept = []
    for line in text.splitlines():
        mark = re.match(r"- \[([\w, ]+)\] ", line)
        if mark is None:
            kept.append(line)
        elif offered := [name for name in mark.group(1).split(", ") if name in tools]:
            named = " and ".join(filter(None, (", ".join(offered[:-1]), offered[-1])))
            kept.append(f"- {line[mark.end() :].replace('{}', named)}")
    return "\n".join(kept)


_FURTHER = "- Further folder: "


def _environment(root: Path, extra_roots: Sequence[Path]) -> str:
    lines = ["# Environment", f"- Workspace: {root}"]
    lines += [f"{_FURTHER}{folder}" for folder in extra_roots]
    system = os.uname()
    lines.append(f"- System: {system.sysname} {system.machine}")
    return "\n".join(lines)


_READ_ONLY = (
    "plan, read-only until the user changes it. Edits, and commands that may change something, are denied: do not"
    " try them. Explore, and answer with what you found or with the steps that you would take."
)
_NO_LONGER_READ_ONLY = "no longer plan: you can edit files and run commands again"
_CHANGED = "New or changed since last time; applies from here on:"


def _folder_facts(given: "PromptSources", header: Header, said: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield the workspace and its further folders, where they are not those of the system prompt; `said` names the
    facts that were sent since."""
    if "Workspace" in said or (header.cwd and header.cwd != str(given.root)):
        yield "Workspace", str(given.root)
    first = [line.removeprefix(_FURTHER) for line in header.system.splitlines() if line.startswith(_FURTHER)]
    folders = list(map(str, given.extra_roots))
    if "Further folders" in said or folders != first:
        yield "Further folders", ", ".join(folders) or "none"


def _told_facts(messages: Iterable[Message]) -> dict[str, str]:
    """Return name → the last line sent for each fact."""
    latest: dict[str, str] = {}
    for message in messages:
        if isinstance(message, UserMessage):
            for line in message.context.partition("\n\n")[0].splitlines():
                latest[line.partition(":")[0]] = line
    return latest


def names_plan_mode(messages: Iterable[Message]) -> bool:
    """Return True if the last mode that the messages name is plan mode."""
    return _told_facts(messages).get("Mode") == f"Mode: {_READ_ONLY}"


def _new_facts(
    given: "PromptSources", mode: Mode, earlier: Iterable[Message], header: Header, others: Mapping[str, str]
) -> str:
    """Return a line for each fact that differs from the last one sent."""
    latest = _told_facts(earlier)
    facts = {
        "Date": time.strftime("%Y-%m-%d"),
        "Git": _branch(given.root),
        **dict(_folder_facts(given, header, latest)),
    }
    if "Mode" in latest or mode == "plan":
        facts["Mode"] = _READ_ONLY if mode == "plan" else _NO_LONGER_READ_ONLY
    lines = {name: f"{name}: {fact}" for name, fact in {**facts, **others}.items()}
    return "\n".join(line for name, line in lines.items() if latest.get(name) != line)


def _known(header_told: Mapping[str, str], earlier: Iterable[Message], blocks: Iterable[Block]) -> dict[str, str]:
    """Return the source of each instruction and memory → hash of the version known to the model."""
    known = dict(header_told)
    sources = {block.path: _source(block) for block in blocks}
    for message in earlier:
        if isinstance(message, UserMessage):
            known.update(message.told)
        elif isinstance(message, ToolResult):
            for change in message.memory:
                if (source := sources.get(change.path)) is not None:
                    known[source] = content_hash(change.after.encode("utf-8")) if change.after is not None else ""
    return known


def _source(block: Block) -> str:
    return f"memory:{block.label}"


def _version(each: Instruction) -> str:
    """Return the version of instructions as known to the model: their hash, and whether they were sent as data."""
    return f"data:{each.hash}" if each.is_doubtful else each.hash


def _instructions_element(each: Instruction) -> str:
    if each.is_doubtful:
        source = f"{quotable(each.path)}, written by a command after untrusted text was read"
        return mark_untrusted(each.text, source)
    return f'<instructions path="{quotable(each.path)}">\n{_inner(each.text)}\n</instructions>'


def _removed_element(source: str, root: Path) -> str:
    if source.startswith("memory:"):
        return f'<memory block="{quotable(source[7:])}">[no longer there]</memory>'
    name = source.removeprefix("user:") if source.startswith("user:") else os.path.normpath(root / source)
    return f'<instructions path="{quotable(name)}">[these no longer apply]</instructions>'


def _memory_section(blocks: Sequence[Block]) -> str:
    head = _MEMORY if any(block.text for block in blocks) else "# Memory"
    return "\n".join([head, *map(_memory_element, blocks)]) if blocks else ""


def _memory_element(block: Block) -> str:
    """Return a block in the form for the model; only the beginning if it exceeds its limit."""
    text, used = block.text, f"{len(block.text)} of {block.limit} characters"
    if len(text) > block.limit:
        text = f"{text[: block.limit]}\n[cut: the block has {len(text)} characters, its limit is {block.limit}]"
    if block.read_only:
        used += ", read-only"
    about = f' about="{quotable(block.description)}"' if block.description and block.hash else ""
    path = f' path="{quotable(block.path)}"' if block.hash else ""
    head = f'<memory block="{quotable(block.label)}"{path}{about} used="{used}"'
    return f"{head}>\n{_inner(text)}\n</memory>" if text else f"{head}/>"


def _inner(text: str) -> str:
    """Escape closing tags in `text`, so that it cannot end the element around it."""
    return re.sub(r"</(?=\s*(?:instructions|memory)\b)", "<\\\\/", text, flags=re.IGNORECASE)


_UNFINISHED: Mapping[str, str] = {
    "rebase-merge": "rebase", "rebase-apply": "rebase", "MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert", "BISECT_LOG": "bisect",
}  # fmt: skip
"""File of git's folder → what git is in the middle of while it is there."""


def _branch(root: Path) -> str:
    """Return the current branch and what git is in the middle of, read from `.git` without starting a process."""
    try:
        place = git_folder(root)
        if place is None:
            return "no repository"
        head = first_line(os.path.join(place.own, "HEAD"))
    except OSError:
        return "unreadable repository"
    steps = (name for file, name in _UNFINISHED.items() if os.path.lexists(os.path.join(place.own, file)))
    unfinished = f", {step} in progress" if (step := next(steps, "")) else ""
    if re.fullmatch(r"[0-9a-f]{40,64}", head):
        return f"detached at {head[:10]}{unfinished}"
    found = re.fullmatch(r"ref: refs/heads/([^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+)", head)
    return f"on branch {found.group(1)}{unfinished}" if found else "unreadable repository"


class PromptSources(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs for the prompts of one session."""

    root: Path
    extra_roots: Sequence[Path]
    instructions: InstructionFiles
    memory: Memory | None
    rules: tuple[str, ...] = ()
    """Sentences for the model."""
    replaced: str | None = None
    """The user's own system prompt, which replaces the built-in one; None if there is none."""
    append: str = ""
    answer_request: str = ""
    """Required form of the answer. Sent with the prompt, since the system prompt never changes."""


class PromptBuilder:
    """Builds the system prompt and the additions to prompts of one session."""

    def __init__(self, sources: PromptSources) -> None:
        self._sources = sources
        self.mode: Callable[[], Mode] = lambda: "ask"
        self.facts: list[Callable[[], Mapping[str, str]]] = []
        """Sources of further facts: name → one line each."""

    def tell_of_new_shell(self) -> None:
        """Tell the model that variables and functions set by commands before now are gone."""
        now = time.strftime("%Y-%m-%d %H:%M")
        fact = f"started anew at {now}: variables and functions that earlier commands set are gone"
        self.facts.append(lambda: {"Shell": fact})

    def for_subagent(self) -> None:
        """Leave out the parts that only apply to the parent: the memory, and the form of the answer."""
        self._sources = msgspec.structs.replace(self._sources, memory=None, answer_request="")

    def system(self, tools: Collection[str], *sections: str) -> SystemPrompt:
        """Return the system prompt of a new session; `sections` are about skills and MCP servers. Suspect
        instructions are left to the first additions. Advice on tools that are not in `tools` is left out, and
        empty memory blocks if there is no tool to fill them."""
        given = self._sources
        if given.replaced is not None:
            return SystemPrompt(f"{given.replaced.strip()}\n\n{given.append}".strip(), dict(REPLACED))
        instructions = [each for each in given.instructions.read() if not each.is_doubtful]
        blocks = given.memory.given() if given.memory else ()
        shown = [block for block in blocks if block.hash or "memory" in tools]
        rules = "\n".join(f"- {rule}" for rule in given.rules)
        parts = (
            _for_tools((_PROMPTS / "system.md").read_text(encoding="utf-8").strip(), tools),
            _environment(given.root, given.extra_roots),
            *(f"# Instructions from {each.path}\n{each.text}" for each in instructions),
            _memory_section(shown),
            *sections,
            f"# Rules\n{rules}" if rules else "",
            given.append.strip(),
        )
        told = {each.source: each.hash for each in instructions} | {_source(block): block.hash for block in blocks}
        return SystemPrompt("\n\n".join(filter(None, parts)), told)

    def additions(self, header: Header, earlier: Sequence[Message]) -> PromptAdditions:
        """Return what has changed since the session began and since the `earlier` messages that are still sent:
        date, git branch, folders of the workspace, plan mode, instructions and memory blocks, and further
        facts. What the model changed in a block itself is known to it."""
        given = self._sources
        instructions = given.instructions.read()
        blocks = given.memory.given() if given.memory else ()
        facts = {name: fact for each in self.facts for name, fact in each().items()}
        parts, told, data = (
            [_new_facts(given, self.mode(), earlier, header, facts)],
            dict[str, str](),
            set[str](),
        )
        known = _known(header.told, earlier, blocks)
        if "*" not in known:
            now = {each.source: (_version(each), _instructions_element(each)) for each in instructions}
            now |= {_source(block): (block.hash, _memory_element(block)) for block in blocks}
            new = {source: each for source, each in now.items() if known.get(source, "") != each[0]}
            gone = [source for source, hash in known.items() if hash and source not in now]
            told = {source: hash for source, (hash, _) in new.items()} | dict.fromkeys(gone, "")
            data = {each.source for each in instructions if each.is_doubtful and each.source in new}
            parts += [new[source][1] for source in new if source in data]
            parts += [_CHANGED] if told.keys() > data else []
            parts += [new[source][1] for source in new if source not in data]
            parts += [_removed_element(source, given.root) for source in gone]
        source = f"changed instructions ({', '.join(sorted(data))})" if data else ""
        return PromptAdditions("\n\n".join(filter(None, (*parts, given.answer_request))), told, source)
