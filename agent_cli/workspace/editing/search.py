"""Locate a passage that was written from memory: exactly, or in increasingly lenient layers, each tried only if
the previous one found nothing. Two places in one layer end the search, so that a more lenient layer never picks
one of them. Pure: takes texts and returns a `Match` or a reason. Every line ending is `\\n` here."""

import re
from collections.abc import Callable
from functools import cached_property

import msgspec

from . import line_match
from .indentation import indent_of
from .line_endings import Piece
from .line_match import LineRange, Lines, Passage, passage
from .normalize import Fold, NormalizedText, escapes, line_end_blanks, typography, wide_blanks
from .transplant import carried, changes

MAX_LAX_CHARS = 5_000_000
"""In longer texts, only exact matches are found."""
MAX_PLACES = 10
_MAX_PASSAGE_LINES = 2000
_MAX_NEAR_LINES = 400
_MAX_DRIFT = 20
"""Maximum error of a line number written into a passage."""
_NUMBERED = re.compile(r"^ *(\d+)\t", re.MULTILINE)
_UNINDENTED = "its line is indented, so that it is not clear how deep the new lines belong; indent both texts"
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&apos;": "'", "&amp;": "&"}
_ENTITY = re.compile("|".join(_ENTITIES))
_AROUND = re.compile(r"\A(?:[ \t]*\n)+|(?<=\n)(?:[ \t]*\n)+\Z")
_AMID_ESCAPES = re.compile(r"""[\n\t\\"'`]""")


class Match(msgspec.Struct, frozen=True):
    """The place of the passage, and the change there."""

    layer: str
    """Differences that were tolerated, in words for the model; empty if none."""
    spans: tuple[tuple[int, int], ...]
    pieces: tuple[Piece, ...]
    """Replacements, in order and not overlapping."""
    inside_words: tuple[int, ...] = ()
    """Further occurrences inside longer words, which do not count as matches."""

    @property
    def near(self) -> bool:
        """True if the match is only approximate."""
        return self.layer == NEAR


class Several(msgspec.Struct, frozen=True):
    """More than one place."""

    layer: str
    starts: tuple[int, ...]
    """At most `MAX_PLACES` + 1 entries."""


class Missing(msgspec.Struct, frozen=True):
    """No place, or one where the change would be a guess."""

    doubt: str = ""
    """Why the change would be a guess."""
    at: int | None = None
    """Offset of the doubtful place."""
    inside_words: tuple[int, ...] = ()
    """Exact occurrences that begin or end inside a longer word; at most `MAX_PLACES` + 1 entries."""
    skipped: bool = False
    """True if lenient layers were skipped because the text is too long."""


Found = Match | Several | Missing
Choose = Callable[[list[int]], int | None]
"""Picks one of several starts by index; None if ambiguous."""


class Search:
    """One search: the text, the old passage and the new one."""

    def __init__(
        self, text: str, old: str, new: str, whole_lines: bool = False, most: int = MAX_PLACES + 1
    ) -> None:
        self.text = text
        self.most = most
        """Maximum number of places to search for."""
        self.old = old
        self.new = new
        self.whole_lines = whole_lines
        self.inside_words: list[int] = []
        """Occurrences inside longer words found by the exact layer."""

    @cached_property
    def there(self) -> Lines:
        """The lines of the text."""
        return Lines(self.text)

    @cached_property
    def passage(self) -> Passage:
        """The lines of the old and the new passage."""
        return passage(self.tidy.old, self.tidy.new)

    @cached_property
    def tidy(self) -> "Search":
        """This search without blanks at line ends, if `old` has any. Such blanks in `new` are kept, because they
        may be intended, unless all lines have them."""
        old = line_end_blanks(self.old).text
        if old == self.old:
            return self
        kept = set(self.old.split("\n"))
        lines = self.new.split("\n")
        if all(line[-1] in " \t" for line in (*kept, *lines) if line.strip()):
            kept.update(lines)
        new = "\n".join(line.rstrip(" \t") if line in kept else line for line in lines)
        return Search(self.text, old, new, self.whole_lines, self.most)


Layer = Callable[[Search], list[LineRange]]


def find(
    text: str,
    old: str,
    new: str,
    *,
    everywhere: bool = False,
    whole_lines: bool = False,
    choose: Choose | None = None,
) -> Found:
    """Return where `old` is in `text`, and what turns it into `new` there.

    `everywhere` takes all places of the first layer that finds any; `whole_lines` only those that begin and end a
    line; `choose` may select one of several places.
    """
    most = len(text) + 1 if everywhere or choose else MAX_PLACES + 1
    search = Search(text, old, new, whole_lines, most)
    ended = search
    if old.endswith("\n") and not text.endswith("\n"):  # a last line without its end is compared as if it had one
        ended = Search(f"{text}\n", old, new, whole_lines, most)
        search = ended if whole_lines else search
    skipped = len(text) > MAX_LAX_CHARS
    for name, layer in LAYERS[:1] if skipped else LAYERS:
        if everywhere and name in (NEAR, ENTITIES):
            continue
        places = layer(search if layer in (_exact, _file_ends) else ended)
        if len(places) > 1 and everywhere:
            places = _apart(places)
        elif len(places) > 1:
            starts = [place.start for place in places]
            chosen = choose(starts) if choose else None
            if chosen is None:
                return Several(name, tuple(starts[: MAX_PLACES + 1]))
            places = [places[chosen]]
        if places:
            return _match(name, places, tuple(search.inside_words), len(text))
    return Missing(inside_words=tuple(search.inside_words[: MAX_PLACES + 1]), skipped=skipped)


def _match(name: str, places: list[LineRange], inside_words: tuple[int, ...], length: int) -> Match | Missing:
    """Return the match; `length` is that of the text, without a line end that it was searched with."""
    pieces: list[Piece] = []
    for place in places:
        if place.pieces is None:
            return Missing(place.why, place.start)
        pieces += [_within(piece, length) for piece in place.pieces]
    if any(place.deeper for place in places):
        name = name or INDENTED
    spans = tuple((place.start, min(place.end, length)) for place in places)
    return Match(name, spans, tuple(pieces), inside_words)


def _within(piece: Piece, length: int) -> Piece:
    """Return a change without the line end behind the text; what is inserted behind it becomes a new last line."""
    start, end, new = piece
    if end <= length:
        return piece
    new = new.removesuffix("\n")
    return (length, length, f"\n{new}") if start > length else (start, length, new)


def _apart(places: list[LineRange]) -> list[LineRange]:
    kept: list[LineRange] = []
    for place in places:
        if not kept or place.start >= kept[-1].end:
            kept.append(place)
    return kept


def _exact(search: Search) -> list[LineRange]:
    """Return exact occurrences. Inside a longer word, something else is meant: `retries = 3` is not part of
    `max_retries = 3`."""
    pieces: list[Piece] | None = None
    places = []
    for start in _all_starts(search.text, search.old, search.most):
        end = start + len(search.old)
        if cuts_a_word(search.text, start, end):
            search.inside_words.append(start)
        elif not search.whole_lines or _is_whole(search.text, start, end):
            if pieces is None:
                pieces = changes(search.old, search.new, fine=False)
            places.append(_exact_place(search, start, pieces))
    return places


def _exact_place(search: Search, start: int, pieces: list[Piece]) -> LineRange:
    moved = tuple([(start + first, start + last, new) for first, last, new in pieces])
    return _indented(search, LineRange(start, start + len(search.old), moved))


def _indented(search: Search, place: LineRange) -> LineRange:
    """Return the place. If it begins within the indentation of a line, change whole lines instead, because the new
    text would otherwise get a different depth."""
    lead = search.text[search.text.rfind("\n", 0, place.start) + 1 : place.start]
    if not lead or lead.strip(" \t") or not _is_whole(search.text, place.start - len(lead), place.end):
        return place
    old, new = search.old.removesuffix("\n"), search.new.removesuffix("\n")
    if "\n" not in old + new and new and indent_of(old) == indent_of(new):
        return place
    if old and new and not indent_of(old):
        sure = "\n" in old or _written_as_there(new.split("\n"), lead)
        return place if sure else LineRange(place.start, place.end, None, _UNINDENTED)
    first = search.there.number_at(place.start) - 1
    at: list[int | None] = list(range(first, first + len(search.passage.old)))
    found = line_match.placed(search.there, search.passage, at, [True] * len(at))
    return msgspec.structs.replace(found, deeper=True)


def _written_as_there(new: list[str], lead: str) -> bool:
    """Return True if only the first of the new lines lacks the indentation it has in the file."""
    first, *others = [line for line in new if line.strip()] or [""]
    if not all(line.startswith(lead) for line in others):
        return False
    opens = bool(others) and first.rstrip()[-1:] in tuple(":{([")
    return not opens or indent_of(others[0]) != lead or others[0].lstrip()[0] in "})]"


def _all_starts(text: str, wanted: str, most: int) -> list[int]:
    """Return the first occurrences, including overlapping ones."""
    starts: list[int] = []
    at = text.find(wanted) if wanted else -1
    while at >= 0 and len(starts) < most:
        starts.append(at)
        at = text.find(wanted, at + 1)
    return starts


def _file_ends(search: Search) -> list[LineRange]:
    """Match a byte order mark at the start, or a line ending after the last line, that the text lacks; only at
    those places."""
    text = search.text
    old, new = search.old.removeprefix("\ufeff"), search.new.removeprefix("\ufeff")
    marked = old != search.old
    unended = old.endswith("\n") and not text.endswith("\n") and text.endswith(old[:-1])
    if unended:
        old, new = old[:-1], new.removesuffix("\n")
    start = 0 if marked else len(text) - len(old)
    end = start + len(old)
    there = bool(old) and (marked or unended) and text.startswith(old, start)
    if not there or (unended and end < len(text)) or cuts_a_word(text, start, end):
        return []
    if search.whole_lines and not _is_whole(text, start, end):
        return []
    return [_exact_place(Search(text, old, new), start, changes(old, new, fine=False))]


def _numbered(search: Search) -> list[LineRange]:
    """Match whole lines written with the line numbers shown by `read_file`, near those lines."""
    lines = passage(search.old, "").old
    numbers = [int(found.group(1)) for line in lines if (found := _NUMBERED.match(line))]
    if not numbers or len(numbers) != len(lines) or numbers != list(range(numbers[0], numbers[0] + len(lines))):
        return []
    old, new = (_NUMBERED.sub("", text) for text in (search.old, search.new))
    places = _exact(Search(search.text, old, new, True, search.most))
    return (
        [place for place in places if abs(search.there.number_at(place.start) - numbers[0]) <= _MAX_DRIFT]
        if len(places) == 1
        else places
    )


def _empty_lines_around(search: Search) -> list[LineRange]:
    """Match a passage with empty lines at its start or end that the file lacks, and that do not change."""
    if not search.new or _AROUND.findall(search.old) != _AROUND.findall(search.new):
        return []
    old, new = (_AROUND.sub("", text) for text in (search.old, search.new))
    return _exact(Search(search.text, old, new, True, search.most)) if old not in ("", search.old) else []


def _folding(fold: Fold) -> Layer:
    def layer(search: Search) -> list[LineRange]:
        return _folded_places(search, fold(search.text), fold)

    return layer


def _folded_places(search: Search, there: NormalizedText, fold: Fold) -> list[LineRange]:
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
        place = LineRange(start, end, tuple(pieces))
        places.append(place if fold is escapes else _indented(search, place))
    return places


def _typographic(search: Search) -> list[LineRange]:
    if search.text.isascii() and search.old.isascii():
        return []
    return _folded_places(search, search.there.typographic, typography)


def _escaped_twice(search: Search) -> list[LineRange]:
    """Match a passage in which every line ending, tab or quote was written as an escape."""
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


def _entities(search: Search) -> list[LineRange]:
    """Match a passage in which every `<`, `>` and `&` was written as in HTML, and quotes in one way."""
    texts = (search.old, search.new)
    kinds, new_kinds = ({_ENTITIES[each] for each in _ENTITY.findall(text)} for text in texts)
    plain = [_ENTITY.sub("", text) for text in texts]
    if not kinds or not re.search(r"\w", plain[0]):  # nothing but entities is meant as written
        return []
    if not (kinds | new_kinds | set("<>&")).isdisjoint("".join(plain)):
        return []
    if not new_kinds <= kinds and _ENTITY.search(search.text):  # may be such a text as it has elsewhere
        return []
    old, new = (_ENTITY.sub(lambda found: _ENTITIES[found[0]], text) for text in texts)
    return _exact(Search(search.text, old, new, search.whole_lines, search.most))


def _escaped_less(search: Search) -> list[LineRange]:
    """Match a passage with real line endings, tabs or quotes where the file has escapes."""
    if "\\" not in search.text:
        return []
    places = _folded_places(search, escapes(search.text), escapes)
    plain = all(not _AMID_ESCAPES.search(text) for _, _, text in changes(search.old, search.new))
    why = "" if plain else "escapes such as \\n are written differently there, so the new text would be a guess"
    return [place if plain else LineRange(place.start, place.end, None, why) for place in places]


def _by_lines(places: Callable[[Lines, Passage, int], list[LineRange]]) -> Layer:
    def layer(search: Search) -> list[LineRange]:
        old = search.passage.old
        if len(old) > _MAX_PASSAGE_LINES or not any(line.strip() for line in old):
            return []
        return places(search.there, search.passage, search.most)

    return layer


def _near(there: Lines, what: Passage, limit: int) -> list[LineRange]:
    return line_match.near_places(there, what) if len(what.old) <= _MAX_NEAR_LINES else []


def _is_whole(text: str, start: int, end: int) -> bool:
    begins = start == 0 or text[start - 1] == "\n"
    return begins and (end == len(text) or text[end] == "\n" or (end > start and text[end - 1] == "\n"))


def cuts_a_word(text: str, start: int, end: int) -> bool:
    """Return True if a span begins or ends within a word."""

    def inside(at: int) -> bool:
        if not (0 < at < len(text) and _is_word(text[at - 1]) and _is_word(text[at])):
            return False
        return not (text[at - 1] in "nrtbf0" and text[at - 2 : at - 1] == "\\")  # the letter of an escape

    return inside(start) or inside(end)


_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words, so that word boundaries cannot be detected: Thai, Lao, Burmese, Khmer,
Chinese, Japanese; and Korean, where particles are attached to words."""


def _is_word(char: str) -> bool:
    return (char.isalnum() or char == "_") and not _UNSPACED.match(char)


NEAR = "nearly"
ENTITIES = "but for HTML entities"
INDENTED = "but for indentation"
LAYERS: tuple[tuple[str, Layer], ...] = (
    ("", _exact),
    ("but for the very start or end of the file", _file_ends),
    ("but for the line numbers written into it", _numbered),
    ("but for blanks at line ends", _folding(line_end_blanks)),
    ("but for empty lines around it", _empty_lines_around),
    (INDENTED, _by_lines(line_match.by_stripped)),
    ("but for quotes, dashes, special spaces or accents", _typographic),
    ("but for indentation and typography", _by_lines(line_match.by_folded)),
    ("but for the width of blanks", _folding(wide_blanks)),
    ("but for escapes written twice", _escaped_twice),
    (ENTITIES, _entities),
    ("but for escapes", _escaped_less),
    (NEAR, _by_lines(_near)),
)
"""Layers from strict to lenient: the tolerated difference, in words that follow "matched", and the function."""
