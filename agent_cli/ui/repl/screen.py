"""The screen: an input line that is always active, a live region above it, and printed text above that.

One prompt_toolkit application runs from start to end. Permanent text is written above the live region in the same
terminal update that repaints it; prompt_toolkit's own diff renderer paints the rest. The screen does not know the
engine: it calls `ScreenCallbacks` for content and to report keys.
"""

import asyncio
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import AnyContainer, ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import AfterInput, Processor, Transformation, TransformationInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.search import stop_search
from prompt_toolkit.widgets.toolbars import SearchToolbar

from agent_cli.fs.files import make_private
from agent_cli.protocol.actions import Mode
from agent_cli.protocol.sanitize import clean, visible

from ..commands.registry import is_command
from ..dialogs.base import Entry
from ..dialogs.dialog_queue import DialogQueue
from ..notifications import Notifications
from ..text import lines
from ..text.theme import Theme
from .drafts import Draft, PasteLabels
from .editor import Edited, Editor
from .first_paint import AIRY_ROWS, prompt_mark
from .keys import bindings
from .live_renderer import LiveRenderer
from .terminal import JobControl, Keyboard, open_terminal
from .terminal_modes import TypeAhead

_LABELLED_LINES = 20
_LABELLED_CHARS = 4000
_REMEMBERED_CHARS = 1 << 18
_TYPING_S = 1.5
"""A user who pressed a key within this many seconds is typing."""


class ScreenCallbacks(Protocol):
    """The screen's interface to the REPL."""

    dialogs: DialogQueue
    attention: Notifications

    def frame(self, rows: int) -> list[str]: ...
    def status(self) -> str: ...
    def mode(self) -> Mode: ...
    def busy(self) -> bool: ...
    def wake(self) -> None: ...
    def send(self, text: str) -> None: ...
    def queue(self, text: str) -> None: ...
    def stop(self) -> bool: ...
    def exit_repl(self) -> None: ...
    def cycle_mode(self) -> None: ...
    def expand(self) -> None: ...
    def take_back(self) -> bool: ...
    def paste_picture(self) -> None: ...
    def runs_own_command(self) -> bool: ...
    def move_to_background(self) -> None: ...


class Screen:
    """Owns the terminal while the REPL runs."""

    def __init__(
        self,
        controller: ScreenCallbacks,
        theme: Theme,
        completer: Completer,
        history_file: Path,
        ahead: TypeAhead,
        *,
        vi_mode: bool,
    ) -> None:
        """`ahead` contains the keys typed so far."""
        self.controller = controller
        self.hint = ""
        """Replaces the status line, such as `Ctrl-C again quits`."""
        self._theme = theme
        self._editor: Editor | None = None
        self._pending = ""
        self._entry: Entry | None = None
        self._lines: list[str] = []
        self._key_at = 0.0
        """Time of the last key that neither sent the draft nor answered a question."""
        self.is_answering = False
        """True if the last keys were for questions and have answered one."""
        self._proposal = ""
        """Text that the program has put into the draft."""
        self._drawn: tuple[str, StyleAndTextTuples] = ("", [])
        self._history = InputHistory(history_file)
        self.draft = Draft(
            multiline=True,
            completer=ThreadedCompleter(completer),
            complete_while_typing=True,
            history=self._history,
        )
        self._pastes = PasteLabels(self.draft)
        self.line = Buffer(multiline=True)
        self._output = open_terminal()
        self._keyboard = Keyboard(sys.stdin, ahead, lambda: self.dialogs.dialog is not None)
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=bindings(self),
            include_default_pygments_style=False,
            editing_mode=EditingMode.VI if vi_mode else EditingMode.EMACS,
            color_depth=lambda: ColorDepth.DEPTH_24_BIT if self._theme.colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            input=self._keyboard,
            terminal_size_polling_interval=None,  # a signal reports resizes, on platforms with signals
            output=self._output,
        )
        self.app.renderer = LiveRenderer(self.app.renderer.style, self._output)
        self.jobs = JobControl(self.app, self._keyboard, lambda: self.has_editor)
        self.app.ttimeoutlen, self.app.timeoutlen = 0.05, 0.1
        self.app.key_processor.before_key_press += lambda _: self._key()
        self.app.before_render += lambda _: self._sync()
        self.app.after_render += lambda _: self._output.release()

    @property
    def dialogs(self) -> DialogQueue:
        """The open questions."""
        return self.controller.dialogs

    def _key(self) -> None:
        self._key_at = time.monotonic()
        self.controller.wake()
        self.controller.attention.key()
        self.is_answering = self.is_answering and self.dialogs.dialog is not None

    def use(self, theme: Theme) -> None:
        """Use other colours from now on."""
        self._theme = theme
        self.repaint()

    def answered(self) -> None:
        """Record that a question was answered: those keys do not count as typing."""
        self._key_at, self.is_answering = 0.0, True

    @property
    def is_typing(self) -> bool:
        """True if the user is typing: the draft is not empty, its history is being searched, or a key was pressed
        a moment ago."""
        is_typing = bool(self.draft.text) or self.app.layout.is_searching
        return is_typing or time.monotonic() - self._key_at < _TYPING_S

    @property
    def has_editor(self) -> bool:
        """True if the user's editor has the terminal."""
        return self._editor is not None

    @property
    def has_early(self) -> bool:
        """True if keys typed before the prompt was shown are unread."""
        return self._keyboard.has_early

    @property
    def text(self) -> str:
        """The draft with its pastes expanded."""
        return self._pastes.expanded(self.draft.text)

    @property
    def unsent_text(self) -> str:
        """Everything typed and not sent: the draft, and a draft behind the history entry that is shown. An
        unchanged entry counts only if there is nothing behind it: it is saved already."""
        entries = self.draft._working_lines
        hidden = entries[-1] if self.draft.working_index < len(entries) - 1 else ""
        if not hidden.strip():
            return self.text
        is_entry = self.draft.text in self._history.get_strings()
        return self._pastes.expanded(hidden if is_entry else f"{self.draft.text}\n\n{hidden}")

    def type(self, text: str) -> None:
        """Insert text into the draft as if typed; a lone line break is ignored."""
        if text.strip("\n"):
            self.draft.insert_text(text)

    def type_answer(self, text: str) -> None:
        """Insert text into the answer line as if typed."""
        self.line.insert_text(text)

    def move_to_draft(self) -> None:
        """Move an answer that is no longer needed into the draft."""
        if self._entry is not None and self._entry.purpose == "answer" and self.line.text.strip():
            self.put(self.line.text)
            self.line.reset()

    def put(self, text: str) -> None:
        """Put a text before the draft, as a separate paragraph; do nothing for an empty text."""
        rest = self.draft.text
        if not text:
            return
        text = f"{text}\n\n{rest}" if rest else text
        self.draft.document = Document(text)

    def prefill(self, text: str) -> None:
        """Put a text of the program's into the draft; a command typed after it is recognized as such."""
        self.put(text)
        self._proposal = self.draft.text

    def remember(self, text: str) -> bool:
        """Append a text to the history and keep the draft; return False if it is too long."""
        if not 0 < len(text) <= _REMEMBERED_CHARS:
            return False
        self.draft.history.append_string(text)
        self.draft.reset(self.draft.document)
        return True

    def _layout(self) -> Layout:
        asking = Condition(lambda: self.dialogs.dialog is not None)
        entering = Condition(lambda: self._entry is not None)
        completing = Condition(lambda: self.draft.has_completions)
        search = SearchToolbar(ignore_case=True)
        self._question = Window(
            FormattedTextControl(self._live, focusable=True, show_cursor=False),
            height=lambda: Dimension.exact(len(self._lines)),
            dont_extend_height=True,
        )
        self._input = Window(
            BufferControl(
                self.draft, [GraphemeProcessor()], search_buffer_control=search.control, preview_search=True
            ),
            height=lambda: Dimension(min=1, max=max(1, self.rows // 2)),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._prompt,
        )
        self._answer = Window(
            BufferControl(self.line, [GraphemeProcessor(), AfterInput(self._hint)]),
            height=lambda: Dimension(min=1, max=max(1, self.rows // 2)),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._label,
        )
        completions = Window(FormattedTextControl(self._menu), dont_extend_height=True)
        status = Window(FormattedTextControl(self._status), height=1)
        rows: list[AnyContainer] = [
            self._question,
            ConditionalContainer(self._input, ~asking),
            ConditionalContainer(self._answer, asking & entering),
            ConditionalContainer(completions, completing & ~asking),
            search,
            status,
            Window(),
        ]
        return Layout(HSplit(rows), focused_element=self._input)

    @property
    def rows(self) -> int:
        """Height of the terminal in rows."""
        return self._output.get_size().rows

    @property
    def dialog_rows(self) -> int:
        """Number of rows for a question, without the answer line and the status line."""
        return max(3, self.rows - 3)

    @property
    def columns(self) -> int:
        """Width of the terminal in columns."""
        return self._output.get_size().columns

    @property
    def vi_sign(self) -> str:
        """Indicator of the vi mode, insert or normal; empty with Emacs keys."""
        if self.app.editing_mode != EditingMode.VI:
            return ""
        return "[N] " if self.app.vi_state.input_mode == InputMode.NAVIGATION else "[I] "

    async def run(self) -> None:
        """Run until `exit`; the terminal is always restored."""
        with self.jobs.answering():
            try:
                await self.app.run_async(set_exception_handler=False, handle_sigint=False)
            finally:
                self._output.give_back()

    def end_by(self, number: int) -> None:
        """Note the signal that ends the program: a terminal that takes nothing must not keep it."""
        self._output.ended_by = number

    def exit(self) -> None:
        """End `run`; the live region disappears."""
        if self._editor is not None:
            self._editor.end()
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def print(self, text: str) -> None:
        """Write whole lines permanently above the live region."""
        if self._editor is not None or not self.app.is_running:
            self._pending += text
            return
        self._output.hold()
        self.app.renderer.erase()
        self._output.write_raw(text.replace("\n", "\r\n"))
        self.app.invalidate()

    def flush_pending(self) -> str:
        """Return the text that could not be printed yet."""
        pending, self._pending = self._pending, ""
        return pending

    def repaint(self) -> None:
        """Paint the live region soon."""
        self.app.invalidate()

    def send(self, sequence: str) -> None:
        """Send an invisible sequence to the terminal: the bell, a notification, a clipboard text."""
        self._output.write_raw(sequence)
        self._output.flush()

    def paste(self, text: str) -> None:
        """Insert pasted text; a long one is shown as a label and expanded when sent."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if self._entry is None and (text.count("\n") >= _LABELLED_LINES or len(text) > _LABELLED_CHARS):
            text = self._pastes.label(text)
        (self.draft if self._entry is None else self.line).insert_text(text)

    def take_draft(self) -> str:
        """Take the draft, with its pastes expanded, and append it to the history. Of a command after text put
        there by the program only the command is taken: the text stays."""
        text = self.text
        proposal, self._proposal = self._proposal, ""
        typed = text.removeprefix(proposal)
        stays = bool(proposal) and typed != text and is_command(typed)
        if stays:
            text = typed.strip()
        self._hold_hidden_draft()
        if text.strip() and len(text) <= _REMEMBERED_CHARS:
            self.draft.text = text
            self.draft.append_to_history()
        self.draft.reset()
        self._key_at = 0.0
        if stays:
            self.prefill(proposal)
        return text

    def _hold_hidden_draft(self) -> None:
        """Keep the draft in the history if an earlier entry is shown in its place: it would be lost with the
        entry that is sent or cleared."""
        shown = self.draft.working_index
        self.draft.history_forward(count=sys.maxsize)
        if self.draft.working_index != shown and self.draft.text.strip():
            self._history.hold(self.draft.text)

    def clear_draft(self) -> None:
        """Empty the draft. It goes to the history, because the key may have been meant for a turn that has just
        ended."""
        self._proposal = ""
        if len(self.text) > _REMEMBERED_CHARS:
            text = self.draft.text
            self._hold_hidden_draft()
            self._history.hold(text)
            self.draft.reset()
        else:
            self.take_draft()

    def edit(self) -> None:
        """Open $EDITOR on the draft, or on the text field of a dialog."""
        if self._editor is not None:
            return
        buffer = self.draft if self._entry is None else self.line
        if buffer is self.draft:
            buffer.text = self.text
        self._editor = Editor()
        self.app.create_background_task(self._edited(self._editor, buffer))

    async def _edited(self, editor: Editor, buffer: Buffer) -> None:
        suffix = ".md" if buffer is self.draft else ".txt"
        try:
            done = await run_in_terminal(lambda: editor.edit(buffer.text, suffix), in_executor=True)
        except OSError as error:
            done = Edited(buffer.text, f"The editor could not be started: {error.strerror or error}.")
        self._editor = None
        if done.problem:
            self._pending += "".join(f"{row}\n" for row in lines.wrap(done.problem, self.columns))
        buffer.document = Document(done.text)
        if pending := self.flush_pending():
            self.print(clean(pending, keep_sgr=True))
        if buffer is self.line and self._entry is not None and self._entry.editor:
            self.dialogs.entered(buffer.text)
        self.repaint()

    @property
    def is_outdated(self) -> bool:
        """True if the lines above the input differ from the last frame."""
        return self._live_lines() != self._lines

    def _sync(self) -> None:
        """Update the lines and the focus before each frame."""
        self._lines = self._live_lines()
        self.follow()

    def follow(self) -> None:
        """Adapt the input line and the focus to the open question."""
        dialog = self.dialogs.dialog
        entry = dialog.entry if dialog else None
        if entry is not self._entry:
            self._entry = entry
            self.line.reset(Document(entry.initial if entry is not None else ""))
            self.app.vi_state.input_mode = InputMode.INSERT
            if entry is not None and entry.editor and (os.environ.get("VISUAL") or os.environ.get("EDITOR")):
                asyncio.get_running_loop().call_soon(self.edit)
        wanted = self._input if dialog is None else self._question if entry is None else self._answer
        layout = self.app.layout
        if wanted is not self._input and layout.is_searching:
            with set_app(self.app):
                stop_search()  # a list that the user asked for has opened meanwhile
        if layout.current_window is not wanted and not (wanted is self._input and layout.is_searching):
            layout.focus(wanted)

    def _live_lines(self) -> list[str]:
        room = self.dialog_rows if self.dialogs.dialog else max(3, self.rows - 4)
        out = self.controller.frame(max(3, min(self.rows - 7, 20)))
        if self.rows >= AIRY_ROWS:
            out = [*out[-(room - 1) :], ""]  # a rule would be broken in two in a narrower window
        if dialog := self.dialogs.dialog:
            out = out + dialog.draw(self._theme, self.columns, room)
        return out[-room:]

    def _live(self) -> StyleAndTextTuples:
        text = "\n".join(self._lines)
        if text != self._drawn[0]:
            self._drawn = (text, to_formatted_text(ANSI(text)))
        return self._drawn[1]

    def _prompt(self, number: int, wrapped: int) -> StyleAndTextTuples:
        mark = prompt_mark(self.controller.mode(), self._theme)
        return to_formatted_text(ANSI("  " if number or wrapped else f"{mark} "))

    def _label(self, number: int, wrapped: int) -> str:
        label = self._entry.label if self._entry else ""
        return "  " if number or wrapped else label

    def _hint(self) -> StyleAndTextTuples:
        """Return the effect of Enter with the current answer line."""
        dialog = self.dialogs.dialog
        hint = dialog.hint(self.line.text) if dialog else ""
        return to_formatted_text(ANSI(self._theme.paint("muted", f"  {hint}" if hint else "")))

    def _menu(self) -> StyleAndTextTuples:
        if (state := self.draft.complete_state) is None:
            return []
        from .menu import draw

        return to_formatted_text(ANSI(draw(state, self.columns, self._theme)))

    def _status(self) -> StyleAndTextTuples:
        return to_formatted_text(ANSI(self.hint or self.controller.status()))


_MAX_BYTES = 1 << 20
_SAVED_CHARS = 20_000


class InputHistory(History):
    """The history of the input line. If its file cannot be read or written, the history is empty or not saved."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return all entries, newest first; of a very long file, the newest megabyte."""
        import json

        try:
            if not self._path.is_file():
                return
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - _MAX_BYTES))
                rows = file.read().split(b"\n")
        except OSError:
            return
        for row in reversed(rows):
            try:
                entry = json.loads(row)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, str):
                yield entry

    def hold(self, string: str) -> None:
        """Append an entry for this session only; it may contain labels of pastes."""
        self._loaded_strings.insert(0, string)

    def store_string(self, string: str) -> None:
        """Append an entry, unless it is so long that a few of them would crowd out the others; the file is created
        with mode 0600."""
        import json

        if len(string) > _SAVED_CHARS:
            return
        try:
            make_private(self._path.parent)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(string) + "\n")
        except OSError:
            pass


_TAB = 4


class GraphemeProcessor(Processor):
    """Shows an emoji sequence as its first character, a flag as its two letters."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the fragments to draw, and the mapping of positions."""
        fragments = transformation_input.fragments
        text = "".join(fragment[1] for fragment in fragments)
        if text.isprintable() and text.isascii():
            return Transformation(fragments)
        styles = [fragment[0] for fragment in fragments for _ in fragment[1]]
        shown: StyleAndTextTuples = []
        to_display: list[int] = []
        columns = 0
        for style, drawn in zip(styles, _drawn(text), strict=True):
            to_display.append(columns)
            columns += len(drawn)
            if drawn:
                shown.append((style, drawn))
        to_source = {display: source for source, display in reversed(list(enumerate(to_display)))}
        beyond = columns - len(text)
        return Transformation(
            shown,
            source_to_display=lambda at: to_display[at] if at < len(to_display) else at + beyond,
            display_to_source=lambda at: to_source.get(at, at - beyond),
        )


def _drawn(text: str) -> list[str]:
    """Return the text drawn for each code point: empty for those that belong to the one before."""
    drawn: list[str] = []
    for grapheme, shown in lines.plain_graphemes(text):
        if shown == grapheme:
            drawn += [" " * _TAB if c == "\t" else c if c.isprintable() else visible(c) for c in grapheme]
        else:
            drawn += [*shown, *[""] * (len(grapheme) - len(shown))]
    return drawn
