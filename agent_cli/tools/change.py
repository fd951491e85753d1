"""What writing and editing share: a change that was worked out but not made yet, its checks, its diff."""

import re

import msgspec

from ..protocol.messages import FileChange
from ..workspace.diff import Diff, unified_diff
from ..workspace.encoding import Codec
from ..workspace.files import FileError, TextFile, content_hash, write_atomic
from ..workspace.paths import Resolved
from .base import ToolError, ToolOutcome
from .output import counted

_ELISION = re.compile(
    r"^[ \t]*(?://|#|/\*|<!--|--|;|\*|\{/\*)?[ \t]*[\[(<]?(?:\.\.\.|…)[ \t]*"
    r"(?:\(?(?:the )?(?:rest|remaining|remainder|existing|unchanged|same as|previous|other|keep)\b.*|)$"
    r"|^[ \t]*(?://|#|/\*|<!--|--)[ \t]*(?:rest of|remaining|existing|previous) .{0,40}"
    r"\b(?:unchanged|here|stays?|remains?|same)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)


class PlannedChange(msgspec.Struct, frozen=True):
    """The new content of one file."""

    place: Resolved
    before: TextFile | None
    """None for a new file."""
    after: str
    """The whole new text, with its line ends."""

    @property
    def diff(self) -> Diff:
        before = self.before.text if self.before else ""
        return unified_diff(before, self.after, self.place.relative, created=self.before is None)

    def make(self, note: str = "") -> ToolOutcome:
        """Write it; `note` is added to what the model reads.

        Raises:
            ToolError: nothing was written, for the reason given.
        """
        data = self._encoded()
        try:
            write_atomic(self.place.real, self.place.shown, data, self.before.stamp if self.before else None)
        except FileError as error:
            raise ToolError(str(error)) from error
        diff = self.diff
        done = "Changed" if self.before else "Created"
        counts = f"{counted(diff.added, 'line')} added, {diff.removed} removed"
        return ToolOutcome(
            text=f"{done} {self.place.shown}: {counts}.{note}",
            display=diff.text,
            changes=(
                FileChange(
                    path=self.place.relative,
                    kind="modified" if self.before else "created",
                    added=diff.added,
                    removed=diff.removed,
                ),
            ),
            seen={self.place.real: content_hash(data)},
        )

    def check(self) -> None:
        """Raise what `make` would raise for the text itself, before anybody is asked.

        Raises:
            ToolError: a character that the file's encoding does not have.
        """
        self._encoded()

    def _encoded(self) -> bytes:
        codec = self.before.codec if self.before else Codec()
        try:
            return codec.encode(self.after)
        except UnicodeEncodeError as error:
            bad = self.after[error.start : error.start + 1]
            raise ToolError(
                f"{self.place.shown} is in {codec.shown}, which has no character {bad!r} (U+{ord(bad):04X})."
                " Nothing was written."
            ) from error


def refuse_elision(new: str, old: str, what: str) -> None:
    """Refuse text in which a comment stands for code that was left out.

    Raises:
        ToolError: `new` has such a line and `old` has not.
    """
    for found in _ELISION.finditer(new):
        line = found.group().strip()
        if line not in old and re.search(r"[a-z]", line, re.IGNORECASE):
            raise ToolError(
                f"{what} contains the line {line!r}, which stands for text that was left out and would be"
                " lost. Nothing was written. Give the full text, or change only the part that differs."
            )


def refuse_unknown_encoding(file: TextFile, shown: str, *texts: str) -> None:
    """Refuse to put non-ASCII text into a file whose encoding is only guessed.

    Raises:
        ToolError: naming the encoding it looks like.
    """
    if file.codec.guessed and not all(text.isascii() for text in texts):
        raise ToolError(
            f"{shown} is not UTF-8 and does not declare its encoding (it looks like {file.codec.name}), so"
            " only ASCII text can be written to it safely. Nothing was written. Use ASCII, or convert it"
            f" first: iconv -f {file.codec.name} -t utf-8"
        )
