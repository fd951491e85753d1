"""Track which parts of a file the model has been shown. Only a model that has seen all of a file may replace it. A
long file is read in pages, so pages of the same content are combined here."""

from .paging import Page, Part

_MAX_FILES = 500


class Ranges:
    """A set of integers from 1, stored as non-adjacent ranges."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, first: int, last: int) -> None:
        """Add `first` to `last`; does nothing if that is empty."""
        if last < first:
            return
        apart = [each for each in self._ranges if each[1] < first - 1 or each[0] > last + 1]
        touching = [each for each in self._ranges if each not in apart]
        merged = (min([first, *(a for a, _ in touching)]), max([last, *(b for _, b in touching)]))
        self._ranges = sorted([*apart, merged])

    def cover(self, last: int) -> bool:
        """Return True if all numbers from 1 to `last` are included."""
        return last < 1 or (bool(self._ranges) and self._ranges[0][0] <= 1 and self._ranges[0][1] >= last)


class _File:
    def __init__(self, hash: str, total: int) -> None:
        self.hash = hash
        self.total = total
        self.lines = Ranges()
        self.parts: dict[int, Ranges] = {}


class Coverage:
    """Parts shown of each file in its current content. One instance per session; the oldest files are dropped."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}

    def page(self, real: str, page: Page) -> bool:
        """Add a page. Return True if all of the file has now been shown. Shortened lines do not count."""
        if page.hash is None or page.total is None:
            return False
        file = self._file(real, page.hash, page.total)
        start = page.first
        for cut in (*page.shortened, page.first + len(page.lines)):
            file.lines.add(start, cut - 1)
            start = cut + 1
        return file.lines.cover(file.total)

    def part(self, real: str, part: Part) -> bool:
        """Add a part of a line. Return True if all of the file has now been shown."""
        if part.hash is None or part.lines is None or part.length is None:
            return False
        file = self._file(real, part.hash, part.lines)
        shown = file.parts.setdefault(part.line, Ranges())
        shown.add(part.column, part.column + len(part.text) - 1)
        if shown.cover(part.length):
            file.lines.add(part.line, part.line)
        return file.lines.cover(file.total)

    def _file(self, real: str, hash: str, total: int) -> _File:
        file = self._files.pop(real, None)
        if file is None or file.hash != hash:
            file = _File(hash, total)
        self._files[real] = file
        if len(self._files) > _MAX_FILES:
            del self._files[next(iter(self._files))]
        return file
