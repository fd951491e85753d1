"""The messages on resuming a session: its state, and input that was never sent.

Shared by both front ends.
"""

import re

from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.sanitize import clean

from ..text import lines
from ..text.theme import Theme

_ANSWER_ROWS = 6
_IMAGE_MARK = re.compile(r"\[image \d+\]")
_NO_ANSWER = "No answer to that yet."
_STOPPED = "The last turn was interrupted when the program was ended; /retry continues."


def where_it_stood(now: Snapshot, theme: Theme, width: int) -> str:
    """Return the title, the number of prompts, the last prompt and the beginning of its answer, in rows of about
    `width` columns; empty for a session without a prompt."""
    if not now.turns:
        return ""
    room = max(20, width - 2)
    prompts = lines.number(now.turns, "prompt")
    rows = [f"  {theme.paint('strong', lines.one_line(now.title, room - len(prompts) - 3))} · {prompts}"]
    if now.last_prompt.strip():
        rows.append(f"  {theme.paint('prompt', '>')} {lines.one_line(now.last_prompt, room - 2)}")
    said = now.last_answer if now.answered or not now.last_prompt.strip() else _NO_ANSWER
    answer = [row for line in clean(said).strip().split("\n") for row in lines.wrap(line, room)]
    shown = [row for row in answer if row.strip()][:_ANSWER_ROWS]
    more = len([row for row in answer if row.strip()]) - len(shown)
    shown += [f"… {lines.number(more, 'more line')}"] if more else []
    rows += [theme.paint("muted", f"  {row}") for row in shown]
    if stopped := what_stopped(now):
        rows += lines.wrap(stopped, width)
    return "\n".join(rows)


def what_stopped(now: Snapshot) -> str:
    """Return a message if the last turn stopped because the program was ended; empty otherwise."""
    return _STOPPED if now.stopped and not now.open_calls else ""


def resume_line(snapshot: Snapshot) -> str:
    """Return the command that resumes this session; empty if there is nothing to resume. Where all turns were
    undone, a redo brings them back."""
    has_turns = snapshot.turns or snapshot.totals.requests
    return f"agent resume {snapshot.session_id}" if snapshot.session_path and has_turns else ""


def never_sent(now: Snapshot, drafts: list[str]) -> tuple[str, str]:
    """Return a message about prompts and drafts that were never sent, and the text to put into the input line. A
    draft that equals a queued prompt is the same text, queued just before the program ended."""
    drafts = [draft for draft in drafts if draft.strip() not in now.unsent]
    said = ["What was queued when the program ended is in the input line; Enter sends it."] if now.unsent else []
    if len(now.unsent) > 1:
        said = [f"{len(now.unsent)} queued prompts are in the input line; Enter sends them as one."]
    said += ["What you were typing when the program ended is in the input line."] if drafts else []
    text = "\n\n".join((*now.unsent, *drafts))
    return "\n".join([*said, *lost_images(text)]), text


def lost_images(text: str) -> list[str]:
    """Return a message if a restored text has marks of pasted images, which are not saved with it."""
    if not (marks := dict.fromkeys(_IMAGE_MARK.findall(text))):
        return []
    return [f"The image is not saved with the text: paste it again in place of {', '.join(marks)}."]
