"""Thoughts in the text of an answer: servers without a parser for a model's reasoning, such as LM Studio, vLLM and
llama.cpp in some settings, leave `<think>…</think>` at the beginning of the text. Where the template of the model
has written the `<think>`, only the end is there."""

_OPEN, CLOSE = "<think>", "</think>"
STARTS = tuple(CLOSE[:size] for size in range(1, len(CLOSE)))


class ThinkTags:
    """Splits the pieces of a text into thoughts and text. Tags count only at the beginning."""

    def __init__(self) -> None:
        self._held = ""
        """Characters that may be part of a tag."""
        self._is_inside = False
        self._is_over = False
        """True if everything that follows is text."""
        self.is_idle = False
        """True if pieces that follow are text, unchanged."""
        self._had_thought = False
        self._is_fresh = True
        """True until the first character of the thoughts."""

    def split(self, piece: str, *, is_last: bool = False) -> tuple[str, str]:
        """Return the thoughts and the text that are certain now. With the last piece before the end, or before
        something else begins, nothing is held back."""
        if self.is_idle:
            return "", piece
        self._held += piece
        if not self._is_inside and not self._is_over:
            self._open()
        thought = self._thought() if self._is_inside else ""
        if is_last and self._is_inside:
            thought, self._held = thought + self._held, ""
        if is_last:
            self._is_inside, self._is_over = False, True
        if not self._is_over:
            return thought, ""
        text, self._held = self._held, ""
        if self._had_thought:  # the empty lines between thoughts and text belong to neither
            text = text.lstrip()
            self._had_thought = not text
        self.is_idle = not self._had_thought
        return thought, text

    def _open(self) -> None:
        start = self._held.lstrip()
        if start.startswith(_OPEN):
            self._is_inside, self._held = True, start.removeprefix(_OPEN)
        else:
            self._is_over = not _OPEN.startswith(start)

    def _thought(self) -> str:
        thought, close, rest = self._held.partition(CLOSE)
        if self._is_fresh:
            thought = thought.lstrip("\n")
            self._is_fresh = not thought
        if close:
            self._is_inside, self._is_over, self._had_thought, self._held = False, True, True, rest
            return thought
        kept = _begun(thought)
        self._held = thought[len(thought) - kept :]
        return thought[: len(thought) - kept]


class LoneClose:
    """Finds a `</think>` without a `<think>`, at the end of a line."""

    def __init__(self) -> None:
        self.held = ""
        """What may be the tag, or the beginning of it."""

    def split(self, piece: str, *, is_last: bool) -> tuple[str, str | None]:
        """Return the text that is certain now, and what follows the tag if there is one. While nothing is held, a
        piece without the tag or one of `STARTS` at its end need not be passed."""
        text, self.held = self.held + piece, ""
        before, tag, after = text.partition(CLOSE)
        if tag and (after or is_last):
            return (before, after.lstrip()) if after[:1] in ("", "\n") else (text, None)
        if not is_last:
            self.held = tag or text[len(text) - _begun(text) :]
        return text.removesuffix(self.held), None


def _begun(text: str) -> int:
    """Return the number of characters at the end of a text that may begin the tag."""
    return next((size for size in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:size])), 0)
