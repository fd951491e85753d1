"""What a reduction must not lose: which messages stay word for word, where a conversation may be cut, and the
facts that are copied from the records beside every summary, since one written by a model may forget them."""

from collections.abc import Collection, Sequence

from agent_cli.protocol.client import JobState
from agent_cli.protocol.messages import AssistantMessage, Message, PlanItem, ToolResult, UserMessage

from .recall_results import recallable
from .token_meter import message_tokens, text_tokens

_MAX_FILES = 60
_MAX_FAILED = 20
_MAX_PROMPTS = 30
_HASH_CHARS = 8


def choose_cut(messages: Sequence[Message], keep_tokens: int, at_most: int | None = None) -> int:
    """Return how many of the oldest messages to fold: as many as leave about `keep_tokens` behind and, where that
    is given, have no more than `at_most` tokens, at a place that parts no call from its results. 0 when nothing
    can be folded."""
    kept = 0
    place = 0
    for index in range(len(messages) - 1, 0, -1):
        kept += message_tokens(messages[index])
        if isinstance(messages[index], UserMessage | AssistantMessage):
            place = index
            if kept >= keep_tokens:
                break
    else:
        place = _last_safe_cut(messages) if kept < keep_tokens else place
    if at_most is not None:
        place = _within(messages, place, at_most)
    folded = [m for m in messages[:place] if not (isinstance(m, UserMessage) and m.origin == "summary")]
    worthwhile = any(not isinstance(m, UserMessage) for m in folded)
    return place if worthwhile else 0


def _within(messages: Sequence[Message], place: int, at_most: int) -> int:
    """Return the last place for a cut, up to `place`, before which there are at most `at_most` tokens."""
    size, found = 0, 0
    for index, message in enumerate(messages[:place]):
        size += message_tokens(message)
        if size > at_most:
            return found
        if not isinstance(messages[index + 1], ToolResult):
            found = index + 1
    return place


def _last_safe_cut(messages: Sequence[Message]) -> int:
    """For a conversation smaller than what would be kept: fold all but the last exchange."""
    for index in range(len(messages) - 1, 0, -1):
        if isinstance(messages[index], UserMessage | AssistantMessage):
            return index
    return 0


def word_for_word(
    visible: Sequence[Message], cut: int, pinned: Collection[str], room_tokens: int
) -> tuple[str, ...]:
    """Ids of the messages before the cut that stay as they are: what the user pinned, all they said in their last
    turn, and of what they said before as much of the newest as fits the room."""
    humans = [m for m in visible if isinstance(m, UserMessage) and m.origin == "human"]
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
    jobs: Sequence[JobState],
    room_chars: int,
) -> str:
    """Return the facts beside a summary, the most important first; what does not fit the room is left out from the
    end of each section."""
    results = [message for message in active if isinstance(message, ToolResult)]
    changed = dict.fromkeys(change.path for result in results for change in result.changes)
    read = {path: hash for path, hash in known_files.items() if not any(path.endswith(f"/{c}") for c in changed)}
    sections = [
        ("Plan:", [f"- [{item.status}] {item.text}" for item in plan]),
        ("Running in the background:", [f"- job {j.id}: {j.command}" for j in jobs if j.state == "running"]),
        ("Files changed so far (newest first):", [f"- {path}" for path in _newest(changed)]),
        ("Failed attempts (newest first):", _failed(active)),
        (
            "Files read, with the hash of what was seen (newest first):",
            [f"- {path} {read[path][:_HASH_CHARS]}" for path in _newest(read)],
        ),
        ("Earlier results (newest first; recall ID shows one in full):", recallable(active)[::-1]),
    ]
    return "\n".join(_fitting([(title, rows) for title, rows in sections if rows], room_chars))


def _newest(names: Collection[str]) -> list[str]:
    return list(names)[::-1][:_MAX_FILES]


def _fitting(sections: Sequence[tuple[str, Sequence[str]]], room_chars: int) -> list[str]:
    """Lines of all sections within the room, each section getting at least an equal part of what is left."""
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
    """Return a line for each of the newest calls that failed or were denied: what it was, and its last words."""
    calls = {call.id: call for m in active if isinstance(m, AssistantMessage) for call in m.calls}
    lines: dict[str, None] = {}
    for result in reversed(active):
        if not isinstance(result, ToolResult) or result.status not in ("failed", "denied"):
            continue
        call = calls.get(result.call_id)
        what = result.command or (call.arguments if call else "")
        words = result.text.strip().splitlines()
        lines.setdefault(f"- {result.tool} {' '.join(what.split())[:120]}: {words[-1][:120] if words else ''}")
        if len(lines) == _MAX_FAILED:
            break
    return list(lines)
