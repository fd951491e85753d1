"""The menu of completions below the input line: its rows, and the effect of Enter and Tab."""

import re

from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.document import Document

from ..commands.registry import TABLE, beginning, is_command
from ..text import lines
from ..text.theme import Theme

_ROWS = 6
_NAME = re.compile(r"/\S*")
"""A line in which the name of a command is still being typed."""


def draw(state: CompletionState, columns: int, theme: Theme) -> str:
    """Return the rows around the selected one, with columns for names and explanations. If none is selected, the
    first is marked if Enter takes it."""
    is_taken = _NAME.fullmatch(state.original_document.text) is not None or _begins_path(state)
    at = state.complete_index if state.complete_index is not None else 0 if is_taken else -1
    first = max(0, min(at - _ROWS + 1, len(state.completions) - _ROWS))
    has_meta = any(row.display_meta_text for row in state.completions)
    widest = max((lines.cells(row.display_text) for row in state.completions), default=0)
    width = min(widest, (columns - 4) // 2 if has_meta else columns - 2)
    out = []
    for index, row in list(enumerate(state.completions))[first : first + _ROWS]:
        name = lines.truncate(row.display_text, width)
        pad = " " * (width - lines.cells(name))
        meta = lines.truncate(row.display_meta_text, max(0, columns - width - 5))
        line = f"{name}{pad}  {theme.paint('muted', meta)}" if meta else name
        out.append((theme.paint("strong", "❯") if index == at else " ") + f" {line}")
    return "\n".join(out)


def complete_name(buffer: Buffer) -> bool:
    """Complete the name of a command on Enter: the selected one, the first of the menu, or the only one with this
    prefix. Return False if the line must not be sent yet, because the command does nothing without an argument."""
    if not _NAME.fullmatch(buffer.text):
        return True
    name = buffer.text[1:]
    found = [row.text for row in buffer.complete_state.completions] if buffer.complete_state else []
    if is_command(buffer.text) or name in found:
        found = [name]
    elif not found and len(known := beginning(name.lower())) == 1:
        found = known
    if not found:
        return True
    command = TABLE.get(found[0].lower())
    needs_argument = command is not None and command.needs_argument
    buffer.document = Document(f"/{found[0]} " if needs_argument else f"/{found[0]}")
    if needs_argument:
        buffer.start_completion()
    return not needs_argument


def complete_path(buffer: Buffer) -> bool:
    """Complete a path after `@` on Enter. Return True if the line must not be sent yet."""
    state = buffer.complete_state
    if state is None or not _begins_path(state):
        return False
    path = state.completions[0]
    buffer.apply_completion(path)
    if path.text.endswith("/"):
        buffer.start_completion()
    return True


def _begins_path(state: CompletionState) -> bool:
    """Return True if the first row is a path that begins with what was typed, and no row is just that. Other
    matches are not taken, since a prompt may say `@property` without meaning a file."""
    before = state.original_document.text_before_cursor
    if before.startswith("/") or state.complete_index is not None or not state.completions:
        return False
    at = len(before) + state.completions[0].start_position
    typed = before[at:].strip('"')
    paths = [row.text.strip('"') for row in state.completions]
    name, first = (each.rstrip("/").rpartition("/")[2].lower() for each in (typed, paths[0]))
    return before[:at].endswith("@") and bool(name) and first.startswith(name) and typed not in paths


def complete_first(buffer: Buffer) -> None:
    """Take the first completion once it is found. A running search is not restarted, so that a Tab right after the
    last letter works too."""

    def found(_: Buffer) -> None:
        state = buffer.complete_state
        if state is not None and state.completions:
            forget(buffer)
            if state.complete_index is None:
                buffer.complete_next()

    def forget(_: Buffer) -> None:
        buffer.on_completions_changed -= found
        buffer.on_text_changed -= forget

    buffer.on_completions_changed += found
    buffer.on_text_changed += forget
    buffer.start_completion(select_first=True)
