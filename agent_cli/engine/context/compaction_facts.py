"""Information that a compaction must preserve: which messages stay verbatim, where a conversation may be cut, and
facts copied from the records next to every summary, because a summary written by a model may omit them."""

from collections.abc import Collection, Sequence

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import AssistantMessage, Message, PlanItem, ToolResult, UserMessage, is_prompt

from .recall_results import recallable
from .token_meter import message_tokens, text_tokens

_MAX_FILES = 60
_MAX_FAILED = 20
_MAX_PROMPTS = 30
_HASH_CHARS = 8
_TITLES = (
    "Plan:",
    "Working directory of the next command:",
    "Running in the background:",
    "Files changed so far (newest first):",
    "Failed attempts (newest first):",
    "Files read, with the hash of what was seen (newest first):",
    "Earlier results (newest first; recall ID shows one in full):",
)
"""Titles of the facts, the most important first."""
_STARTS = tuple(f"{title}\n- " for title in _TITLES)
_NOTE = lazy_regex(r"\[.*\]|\(no output\)")


def choose_cut(
    messages: Sequence[Message], keep_tokens: int, at_most: int | None = None, *, keep_less: bool = True
) -> int:
    """Return how many of the oldest messages to compact: leave about `keep_tokens`, or with `keep_less` at least
    the newest exchange if that would leave everything after the prompt; take at most `at_most` tokens if given;
    do not separate a call from its results. 0 if nothing can be compacted."""
    kept, places = 0, list[int]()
    for index in range(len(messages) - 1, 0, -1):
        kept += message_tokens(messages[index])
        if isinstance(messages[index], UserMessage | AssistantMessage):
            places.append(index)
            if kept >= keep_tokens:
                break
    # a conversation smaller than what would be kept is cut before its last exchange
    last = min(max(places, default=0), _unread_exchange(messages))
    chosen = min(last, min(places, default=0)) if kept >= keep_tokens else last
    others = [at for at in reversed(places) if chosen < at <= last] if keep_less else []
    for place in (chosen, *others):
        cut = place if at_most is None else _within(messages, place, at_most)
        if _is_worthwhile(messages[:cut]):
            return cut
    return 0


def _unread_exchange(messages: Sequence[Message]) -> int:
    """Return where the exchange begins whose results the model has not seen; the number of messages if there is
    none."""
    for at in range(len(messages) - 1, -1, -1):
        if isinstance(messages[at], AssistantMessage):
            return at if isinstance(messages[min(at + 1, len(messages) - 1)], ToolResult) else len(messages)
    return len(messages)


def _is_worthwhile(older: Sequence[Message]) -> bool:
    """Return True if there is more to compact than the user's messages and earlier summaries."""
    return any(not isinstance(message, UserMessage) for message in older)


def _within(messages: Sequence[Message], place: int, at_most: int) -> int:
    """Return the last possible cut up to `place` with at most `at_most` tokens before it."""
    size, found = 0, 0
    for index, message in enumerate(messages[:place]):
        size += message_tokens(message)
        if size > at_most:
            return found
        if not isinstance(messages[index + 1], ToolResult):
            found = index + 1
    return place


def word_for_word(
    visible: Sequence[Message], cut: int, pinned: Collection[str], room_tokens: int
) -> tuple[str, ...]:
    """Return ids of the messages before the cut that stay verbatim: pinned ones, the user's messages of the last
    turn, and as many of the user's newest earlier messages as fit."""
    humans = [m for m in visible if is_prompt(m)]
    last_turn = humans[-1].turn_id if humans else ""
    kept = {m.id for m in visible if m.id in pinned}
    for message in reversed(humans[-_MAX_PROMPTS:]):
        room_tokens -= text_tokens(message.text)
        if message.turn_id != last_turn and room_tokens < 0:
            break
        kept.add(message.id)
    return tuple(m.id for m in visible[:cut] if m.id in kept)


def facts(
    active: Sequence[Message],
    plan: Sequence[PlanItem],
    known_files: dict[str, str],
    directory: str,
    running: Sequence[str],
    room_chars: int,
    sent: int = 0,
    reverted: Collection[str] = (),
) -> str:
    """Return the facts to accompany a summary, the most important first. Each section is truncated to fit.
    `directory` is that of the next command, empty for the workspace's folder; `running` names what goes on in the
    background. The newest `sent` messages are still sent, so their failures and results are not listed. The files
    of the turns `reverted` were undone."""
    results = [message for message in active if isinstance(message, ToolResult)]
    gone = active[: len(active) - sent]
    kept = [result for result in results if result.turn_id not in reverted]
    changed = dict.fromkeys(change.path for result in kept for change in result.changes)
    read = {path: hash for path, hash in known_files.items() if not any(path.endswith(f"/{c}") for c in changed)}
    rows = (
        [f"- [{item.status}] {item.text}" for item in plan],
        [f"- {directory}"] if directory else [],
        [f"- {each}" for each in running],
        [f"- {path}" for path in _newest(changed)],
        _failed(gone),
        [f"- {path} {read[path][:_HASH_CHARS]}" for path in _newest(read)],
        recallable(gone)[::-1],
    )
    sections = [(title, lines) for title, lines in zip(_TITLES, rows, strict=True) if lines]
    return "\n".join(_fitting(sections, room_chars))


def without_facts(summary: str) -> str:
    """Return a summary without the facts that accompany it and what follows them: they are put together anew."""
    parts = summary.split("\n\n")
    starts = (at for at in range(len(parts) - 1, -1, -1) if parts[at].startswith(_STARTS))
    return "\n\n".join(parts[: next(starts, len(parts))])


def _newest(names: Collection[str]) -> list[str]:
    return list(names)[::-1][:_MAX_FILES]


def _fitting(sections: Sequence[tuple[str, Sequence[str]]], room_chars: int) -> list[str]:
    """Return the lines of all sections that fit. Each section gets at least an equal share of the remaining
    space."""
    lines: list[str] = []
    for index, (title, rows) in enumerate(sections):
        share = room_chars // (len(sections) - index)
        taken: list[str] = []
        for row in rows:
            share -= len(row) + 1
            if share < len(title):
                break
            taken.append(row)
        if taken:
            more = [f"- … and {len(rows) - len(taken)} more"] if len(taken) < len(rows) else []
            lines += [title, *taken, *more]
            room_chars -= len(title) + sum(len(row) + 1 for row in taken)
    return lines


def _failed(active: Sequence[Message]) -> list[str]:
    """Return a line for each of the newest calls that failed or were denied, except by plan mode: that is no
    reason not to try them when the plan is carried out."""
    calls = {call.id: call for m in active if isinstance(m, AssistantMessage) for call in m.calls}
    lines: dict[str, None] = {}
    for result in reversed(active):
        if not isinstance(result, ToolResult) or result.status not in ("failed", "denied"):
            continue
        if result.rule == "mode plan":
            continue
        call = calls.get(result.call_id)
        what = result.command or (call.arguments if call else "")
        lines.setdefault(f"- {result.tool} {' '.join(what.split())[:120]}: {_why(result)[:120]}")
        if len(lines) == _MAX_FAILED:
            break
    return list(lines)


def _why(result: ToolResult) -> str:
    """Return the last line of a command that failed, before the notes that the agent adds; of other calls the
    first, which says what was wrong. The words of others would lose their marks here, so they are left out."""
    lines = [] if result.untrusted else result.text.strip().splitlines()
    ordered = lines if result.exit_code is None else reversed(lines)
    said = next((line for line in ordered if not _NOTE.fullmatch(line)), "")
    return said.strip() or (result.status if result.exit_code is None else f"exit code {result.exit_code}")
