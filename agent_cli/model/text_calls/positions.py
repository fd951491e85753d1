"""Positions in an answer where a textual tool call may start: never inside code, quotes or a sentence.

Scans Markdown as it arrives and remembers only its state: in a code block, in inline code, at the start of a line.
"""

from collections.abc import Iterator

from agent_cli.protocol.lazy_regex import lazy_regex

from .forms import FORMS, LINE_START_OPENERS
from .reader import plain

_THINKING = lazy_regex(r"\s*<think>")
_PREFIX = lazy_regex(r"[ \t]*(?:>[ \t]*)*")
_RUN = lazy_regex(r"`+|~+")
_NEXT = lazy_regex(r"[\n`<\[{]")
_LONGEST = max(map(len, FORMS))
_SENTENCE_ENDS = frozenset(".!?…。！？")
_ENDS = _SENTENCE_ENDS | {":", "："}
_OPEN = frozenset("`'\"“”‘’«»([{<>*_/=\\,-+|")
"""Characters before a token that is quoted or discussed rather than used."""
_CODE_INDENT = 4
_GO, _WAIT = -1, -2


class CallPositions:
    """The candidate positions of one answer, in order."""

    def __init__(self) -> None:
        self.hold: int | None = None
        """Position at the end of the text where a form may be starting."""
        self._at = 0
        self._line = 0
        self._fresh = True
        self._fence = ""
        self._ticks = 0
        self._start = 0
        self._rejected = -1

    def alone(self, text: str, place: int) -> bool:
        """Return True if only thinking precedes a position."""
        return not text[self._start : place].strip()

    def reject(self, place: int) -> None:
        """Reject a position: no call starts there."""
        self._rejected = place

    def next(self, text: str, *, final: bool) -> int | None:
        """Return the next position where a form starts; None at the end of the text.

        Args:
            text: the answer so far, longer each time.
            final: no more text follows.
        """
        self.hold = None
        if not self._start and _THINKING.match(text):
            end = text.find("</think>")
            if end < 0:
                return None
            self._at = self._line = self._start = end + len("</think>")
            self._fresh = True
        while self._at < len(text):
            step = self._begin_line if self._fresh else self._skip_line if self._fence else self._in_line
            outcome = step(text, final)
            if outcome == _WAIT:
                return None
            if outcome != _GO:
                return outcome
        return None

    def _begin_line(self, text: str, final: bool) -> int:
        """Check for the start or end of a code block at the start of a line."""
        begin = _PREFIX.match(text, self._at).end()  # type: ignore[union-attr]
        if begin == len(text) and not final:
            return _WAIT
        run = _RUN.match(text, begin)
        if run is not None:
            whole = run[0][0] == "`" and not self._fence and begin != self._rejected and self.alone(text, begin)
            if run.end() == len(text) and not final and len(run[0]) < len("```"):
                self.hold = begin if whole else None
                return _WAIT
            if len(run[0]) >= len("```"):
                if whole:
                    return begin
                end = text.find("\n", begin)
                if end < 0 and not final:
                    return _WAIT
                end = len(text) if end < 0 else end
                if self._turns(run[0], text[run.end() : end]):
                    self._new_line(end + 1)
                    return _GO
        self._fresh = False
        return _GO

    def _turns(self, run: str, info: str) -> bool:
        """Return True if a line of backticks or tildes opens or closes a block."""
        if self._fence:
            if run[0] != self._fence[0] or len(run) < len(self._fence) or info.strip():
                return False
            self._fence = ""
            return True
        if "`" in info and run[0] == "`":
            return False
        self._fence = run
        return True

    def _skip_line(self, text: str, final: bool) -> int:
        end = text.find("\n", self._at)
        if end < 0 and not final:
            return _WAIT
        self._new_line(len(text) if end < 0 else end + 1)
        return _GO

    def _in_line(self, text: str, final: bool) -> int:
        """Advance to the next significant character."""
        found = _NEXT.search(text, self._at)
        if found is None:
            self._at = len(text)
            return _GO
        at = self._at = found.start()
        if text[at] == "\n":
            self._new_line(at + 1)
            return _GO
        if text[at] == "`":
            return self._inline_code(text, final)
        if not self._ticks and at != self._rejected:
            rest = plain(text[at : at + _LONGEST])
            allowed = list(self._allowed(text, at))
            if not final and any(opener.startswith(rest) for opener in allowed if opener != rest):
                self.hold = at
                return _WAIT
            if any(rest.startswith(opener) for opener in allowed):
                return at
        self._at = at + 1
        return _GO

    def _inline_code(self, text: str, final: bool) -> int:
        run = _RUN.match(text, self._at)
        assert run is not None
        if run.end() == len(text) and not final:
            return _WAIT
        length = len(run[0])
        self._ticks = length if not self._ticks else 0 if length == self._ticks else self._ticks
        self._at = run.end()
        return _GO

    def _allowed(self, text: str, at: int) -> Iterator[str]:
        """Yield the openers allowed at a position."""
        line = text[self._line : at]
        first = not line.strip() and "\t" not in line and len(line) < _CODE_INDENT
        before = text[at - 1 : at]
        if before.isspace():
            bound = line.rstrip()[-1:] in _SENTENCE_ENDS
        else:
            bound = bool(before) and (before not in _OPEN or text.endswith("</think>", 0, at))
        for opener in FORMS:
            if opener == "{":
                allowed = first
            elif opener in LINE_START_OPENERS:
                allowed = opener == "[" and first and self.alone(text, at)
            elif opener[0] == "[" or "|" in opener:
                allowed = first or bound
            else:
                allowed = first or before in _ENDS
            if allowed:
                yield opener

    def _new_line(self, at: int) -> None:
        self._at = self._line = at
        self._fresh = True
        self._ticks = 0
