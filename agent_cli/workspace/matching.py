"""Where a passage stands in a file when it was written from memory: exactly, or in layers that forgive ever
more, each tried only if the one before found nothing. Two places in one layer end the search, so that a laxer
layer never picks one of them. Pure: texts in, a `Match` or a reason out; every line end is `\\n` here."""

import re
from collections.abc import Callable
from functools import cached_property

import msgspec

from . import linewise
from .folding import Fold, Folded, escapes, line_end_blanks, typography
from .linewise import Lines, Passage, Place, passage
from .splice import Piece
from .transfer import carried, changes

MAX_LAX_CHARS = 5_000_000
"""In longer texts only what stands there exactly is found."""
MAX_PLACES = 10
_MAX_PASSAGE_LINES = 2000
_MAX_NEAR_LINES = 400
_NUMBERED = re.compile(r"^ *(\d+)\t", re.MULTILINE)
_AMID_ESCAPES = re.compile(r"""[\n\t\\"'`]""")


class Match(msgspec.Struct, frozen=True):
    """Where the passage stands, and the change there."""

    layer: str
    """What had to be forgiven, for the model; empty where nothing was."""
    spans: tuple[tuple[int, int], ...]
    pieces: tuple[Piece, ...]
    """In order and apart."""

    @property
    def near(self) -> bool:
        """Whether the passage stands there only nearly."""
        return self.layer == NEAR


class Several(msgspec.Struct, frozen=True):
    """More than one place."""

    layer: str
    starts: tuple[int, ...]
    """At most one more than `MAX_PLACES`."""


class Missing(msgspec.Struct, frozen=True):
    """No place, or one at which the change would be a guess."""

    doubt: str = ""
    """Why the change would be a guess."""
    at: int | None = None
    """The place of the doubt."""
    skipped: bool = False
    """Whether the laxer layers were left out because of the text's length."""


Found = Match | Several | Missing
Choose = Callable[[list[int]], int | None]
"""Picks one of several starts by its index; None: it cannot be told."""


class Search:
    """One search: the text, what is looked for and what shall stand there."""

    def __init__(
        self, text: str, old: str, new: str, whole_lines: bool = False, most: int = MAX_PLACES + 1
    ) -> None:
        self.text = text
        self.most = most
        """Places after which looking for more is of no use."""
        self.old = old
        self.new = new
        self.whole_lines = whole_lines

    @cached_property
    def there(self) -> Lines:
        """The text by lines."""
        return Lines(self.text)

    @cached_property
    def passage(self) -> Passage:
        """What is looked for, by lines."""
        return passage(self.tidy.old, self.tidy.new)

    @cached_property
    def tidy(self) -> "Search":
        """The same without blanks at line ends, if `old` was written with such."""
        old = line_end_blanks(self.old).text
        if old == self.old:
            return self
        return Search(self.text, old, line_end_blanks(self.new).text, self.whole_lines, self.most)


Layer = Callable[[Search], list[Place]]


def find(
    text: str,
    old: str,
    new: str,
    *,
    everywhere: bool = False,
    whole_lines: bool = False,
    choose: Choose | None = None,
) -> Found:
    """Where `old` stands in `text`, and what turns it into `new` there.

    `everywhere` takes all places of the first layer that finds any; `whole_lines` only those that begin and
    end a line; `choose` may settle which of several places is meant.
    """
    most = len(text) + 1 if everywhere or choose else MAX_PLACES + 1
    search = Search(text, old, new, whole_lines, most)
    skipped = len(text) > MAX_LAX_CHARS
    for name, layer in LAYERS[:1] if skipped else LAYERS:
        if everywhere and name == NEAR:
            continue
        places = layer(search)
        if len(places) > 1 and everywhere:
            places = _apart(places)
        elif len(places) > 1:
            starts = [place.start for place in places]
            chosen = choose(starts) if choose else None
            if chosen is None:
                return Several(name, tuple(starts[: MAX_PLACES + 1]))
            places = [places[chosen]]
        if places:
            return _match(name, places)
    return Missing(skipped=skipped)


def _match(name: str, places: list[Place]) -> Match | Missing:
    pieces: list[Piece] = []
    for place in places:
        if place.pieces is None:
            return Missing(place.why, place.start)
        pieces += place.pieces
    return Match(name, tuple((place.start, place.end) for place in places), tuple(pieces))


def _apart(places: list[Place]) -> list[Place]:
    kept: list[Place] = []
    for place in places:
        if not kept or place.start >= kept[-1].end:
            kept.append(place)
    return kept


def _exact(search: Search) -> list[Place]:
    pieces: list[Piece] | None = None
    places = []
    for start in _all_starts(search.text, search.old, search.most):
        end = start + len(search.old)
        if not search.whole_lines or _is_whole(search.text, start, end):
            if pieces is None:
                pieces = changes(search.old, search.new, fine=False)
            moved = tuple((start + first, start + last, new) for first, last, new in pieces)
            places.append(Place(start, end, moved))
    return places


def _all_starts(text: str, wanted: str, most: int) -> list[int]:
    """The first places, overlapping ones included."""
    starts: list[int] = []
    at = text.find(wanted) if wanted else -1
    while at >= 0 and len(starts) < most:
        starts.append(at)
        at = text.find(wanted, at + 1)
    return starts


def _file_ends(search: Search) -> list[Place]:
    """A mark at the start, or a line end behind the last line, that is not in the text."""
    old, new = search.old.removeprefix("\ufeff"), search.new.removeprefix("\ufeff")
    if old.endswith("\n") and not search.text.endswith("\n") and search.text.endswith(old[:-1]):
        old, new = old[:-1], new.removesuffix("\n")
    return _exact(Search(search.text, old, new, search.whole_lines)) if old != search.old else []


def _numbered(search: Search) -> list[Place]:
    """Lines written with the numbers before them that reading shows."""
    lines = passage(search.old, "").old
    numbers = [found.group(1) for line in lines if (found := _NUMBERED.match(line))]
    if len(numbers) != len(lines) or [int(number) - int(numbers[0]) for number in numbers] != list(
        range(len(lines))
    ):
        return []
    return _exact(Search(search.text, _NUMBERED.sub("", search.old), _NUMBERED.sub("", search.new)))


def _folding(fold: Fold) -> Layer:
    def layer(search: Search) -> list[Place]:
        return _folded_places(search, fold(search.text), fold)

    return layer


def _folded_places(search: Search, there: Folded, fold: Fold) -> list[Place]:
    search = search.tidy
    wanted = fold(search.old).text
    if not wanted.strip():
        return []
    places = []
    for at in _all_starts(there.text, wanted, search.most):
        start, end = there.start(at), there.end(at + len(wanted))
        if start is None or end is None or cuts_a_word(there.text, at, at + len(wanted)):
            continue
        if search.whole_lines and not _is_whole(there.text, at, at + len(wanted)):
            continue
        pieces = carried(search.old, search.new, there, at, fold)
        if pieces is None:
            pieces = [(start, end, search.new)]
        places.append(Place(start, end, tuple(pieces)))
    return places


def _typographic(search: Search) -> list[Place]:
    if search.text.isascii() and search.old.isascii():
        return []
    return _folded_places(search, typography(search.text), typography)


def _escaped_twice(search: Search) -> list[Place]:
    """A passage in which every line end, tab or quote was written as an escape."""
    if not all(_escaped_throughout(text) for text in (search.old, search.new) if "\\" in text):
        return []
    old, new = escapes(search.old).text, escapes(search.new).text
    if old == line_end_blanks(search.old).text:
        return []
    return _folded_places(
        Search(search.text, old, new, search.whole_lines), line_end_blanks(search.text), line_end_blanks
    )


def _escaped_throughout(text: str) -> bool:
    if "\\n" in text and "\n" in text.rstrip("\n"):
        return False
    return all(not re.search(rf"(?<!\\){quote}", text) for quote in "\"'" if f"\\{quote}" in text)


def _escaped_less(search: Search) -> list[Place]:
    """A passage with real line ends or tabs, or bare quotes, where the file has escapes."""
    if "\\" not in search.text:
        return []
    places = _folded_places(search, escapes(search.text), escapes)
    plain = all(not _AMID_ESCAPES.search(text) for _, _, text in changes(search.old, search.new))
    why = "" if plain else "escapes such as \\n are written differently there, so the new text would be a guess"
    return [place if plain else Place(place.start, place.end, None, why) for place in places]


def _by_lines(places: Callable[[Lines, Passage, int], list[Place]]) -> Layer:
    def layer(search: Search) -> list[Place]:
        old = search.passage.old
        if len(old) > _MAX_PASSAGE_LINES or not any(line.strip() for line in old):
            return []
        return places(search.there, search.passage, search.most)

    return layer


def _near(there: Lines, what: Passage, limit: int) -> list[Place]:
    return linewise.near_places(there, what) if len(what.old) <= _MAX_NEAR_LINES else []


def _is_whole(text: str, start: int, end: int) -> bool:
    begins = start == 0 or text[start - 1] == "\n"
    return begins and (end == len(text) or text[end] == "\n" or (end > start and text[end - 1] == "\n"))


def cuts_a_word(text: str, start: int, end: int) -> bool:
    """Whether a span begins or ends within a word."""

    def inside(at: int) -> bool:
        return 0 < at < len(text) and _is_word(text[at - 1]) and _is_word(text[at])

    return inside(start) or inside(end)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


NEAR = "nearly"
LAYERS: tuple[tuple[str, Layer], ...] = (
    ("", _exact),
    ("but for the very start or end of the file", _file_ends),
    ("but for the line numbers written into it", _numbered),
    ("but for blanks at line ends", _folding(line_end_blanks)),
    ("but for indentation", _by_lines(linewise.by_stripped)),
    ("but for quotes, dashes, special spaces or accents", _typographic),
    ("but for indentation and typography", _by_lines(linewise.by_folded)),
    ("but for escapes written twice", _escaped_twice),
    ("but for escapes", _escaped_less),
    (NEAR, _by_lines(_near)),
)
"""What each layer forgives, in words that follow "matched", and the layer; laxer ones last."""
