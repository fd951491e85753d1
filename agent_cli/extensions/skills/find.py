"""Find the skills of the project, the user and plug-ins, reading only what has changed since the last scan, and
give each a unique name. Of several with one name the one with the highest precedence keeps it, and the others
remain callable by longer names: no skill disappears.

A folder is listed again if its mtime or inode has changed, a file is read again if its size, mtime or inode has; a
known skill costs one `stat`.
"""

import contextlib
import hashlib
import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import make_private, read_regular, replace_file

from ..places import Place, unique_name
from .skill import FILE_NAMES, LARGEST_BYTES, Skill, SkillHead, SkillText

_DEEPEST = 5
"""Depth to which folders are searched."""
_MOST_FOLDERS = 2_000
_SKIPPED = (".git", "node_modules")
_SETTLED_NS = 2_000_000_000
"""A folder changed less than this before it was listed may change again with the same mtime."""
_MOST_PLACES = 100
_LARGEST_CACHE = 64_000_000
_VERSION = 3
"""Version of the cached data; other versions are discarded."""


class FoundFile(msgspec.Struct, frozen=True, array_like=True):
    """A skill's file."""

    path: str
    """Path without links."""
    head: SkillHead
    stamp: tuple[int, int, int]
    """Size, mtime in ns and inode of the file."""
    digest: str = ""
    """Hash of its content."""


class _Listing(msgspec.Struct, frozen=True, array_like=True):
    """The content of a folder."""

    mtime_ns: int
    inode: int
    file: str
    """Name of the skill file in it; empty if there is none."""
    folders: tuple[str, ...]
    links: tuple[str, ...]
    """Links that may lead to folders."""


class _KnownPlace(msgspec.Struct, array_like=True):
    """Cached data of a place, by paths without links."""

    folders: dict[str, _Listing] = {}
    files: dict[str, FoundFile] = {}


class _Kept(msgspec.Struct):
    version: int
    places: dict[str, msgspec.Raw]


class SkillCache:
    """Cache of parsed skills, stored in one file. A damaged or missing file is recreated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, msgspec.Raw] | None = None
        self._known: dict[str, _KnownPlace] = {}
        self._changed: set[str] = set()

    def files(self, place: Place, notes: list[tuple[str, str]]) -> list[FoundFile]:
        """Return the files of a place; add those that are left out to `notes`."""
        key = str(place.folder)
        known = self._known.get(key) or self._loaded(key)
        scan = _Scan(place, known, notes)
        found = list(scan.files())
        if (scan.now.folders, scan.now.files) != (known.folders, known.files):
            self._changed.add(key)
        self._known[key] = scan.now
        return found

    def save(self) -> None:
        """Write the changes; if writing fails, the data is read again next time."""
        if not self._changed:
            return
        encoder = msgspec.msgpack.Encoder()
        kept = {key: raw for key, raw in self._all().items() if key not in self._known}
        for key, place in self._known.items():
            with contextlib.suppress(UnicodeEncodeError):  # a name that is not UTF-8: it is read again next time
                key.encode()
                kept[key] = msgspec.Raw(encoder.encode(place))
        kept = dict(list(kept.items())[-_MOST_PLACES:])
        try:
            make_private(self._path.parent)
            replace_file(self._path, encoder.encode(_Kept(_VERSION, kept)))
        except OSError:
            return
        self._kept, self._changed = kept, set()

    def _loaded(self, key: str) -> _KnownPlace:
        try:
            return msgspec.msgpack.decode(self._all()[key], type=_KnownPlace)
        except (KeyError, msgspec.DecodeError):
            return _KnownPlace()

    def _all(self) -> dict[str, msgspec.Raw]:
        if self._kept is None:
            try:
                kept = msgspec.msgpack.decode(read_regular(self._path, _LARGEST_CACHE), type=_Kept)
                self._kept = kept.places if kept.version == _VERSION else {}
            except (OSError, msgspec.DecodeError):
                self._kept = {}
        return self._kept


class _Scan:
    """A scan of a place. Links in a project are followed only within it."""

    def __init__(self, place: Place, known: _KnownPlace, notes: list[tuple[str, str]]) -> None:
        self.now = _KnownPlace({}, {})
        self._top_depth = 0 if place.plugin else 1
        """Depth from which a folder may be a skill; a plug-in's folder may itself be one."""
        self._before = known
        self._notes = notes
        self._top = os.path.realpath(place.folder)
        self._within = _bound(place)
        self._settled_ns = time.time_ns() - _SETTLED_NS

    def files(self) -> Iterator[FoundFile]:
        """Yield the skill files, breadth first."""
        if not self._is_ours(self._top):
            self._notes.append((self._top, "it is outside the project"))
            return
        waiting = deque([(self._top, 0)])
        seen = {self._top}
        left = _MOST_FOLDERS
        while waiting:
            if left == 0:
                self._notes.append(
                    (self._top, f"it holds more than {_MOST_FOLDERS:,} folders; the rest is left out")
                )
                return
            left -= 1
            folder, depth = waiting.popleft()
            if depth >= self._top_depth and (found := self._known_file(folder) or self._listed_file(folder)):
                if found.head.problem:
                    self._notes.append((found.path, found.head.problem))
                else:
                    yield found
                continue
            for below in self._below(folder) if depth < _DEEPEST else ():
                if below not in seen:
                    seen.add(below)
                    waiting.append((below, depth + 1))

    def _is_ours(self, real: str) -> bool:
        return f"{real}/".startswith(self._within)

    def _known_file(self, folder: str) -> FoundFile | None:
        """Return the file of a folder that had one at the last scan, if it still exists."""
        listing = self._before.folders.get(folder)
        if listing is None or not listing.file:
            return None
        found = self._file(f"{folder}/{listing.file}")
        if found is not None:
            self.now.folders[folder] = listing
        return found

    def _listed_file(self, folder: str) -> FoundFile | None:
        listing = self._listing(folder)
        return self._file(f"{folder}/{listing.file}") if listing and listing.file else None

    def _below(self, folder: str) -> Iterator[str]:
        listing = self._listing(folder)
        if listing is None:
            return
        yield from (f"{folder}/{name}" for name in listing.folders)
        for name in listing.links:
            real = os.path.realpath(f"{folder}/{name}")
            if not self._is_ours(real):
                self._notes.append((f"{folder}/{name}", "it is a link that leads out of the project"))
            elif os.path.isdir(real):
                yield real

    def _listing(self, folder: str) -> _Listing | None:
        """Return the content of a folder; None if it cannot be read."""
        if folder in self.now.folders:
            return self.now.folders[folder]
        try:
            about = os.stat(folder)
            listing = self._before.folders.get(folder)
            if listing is None or (listing.mtime_ns, listing.inode) != (about.st_mtime_ns, about.st_ino):
                listing = _listed(folder, about)
        except OSError as error:
            self._notes.append((folder, f"it cannot be read: {error.strerror}"))
            return None
        if about.st_mtime_ns < self._settled_ns:
            self.now.folders[folder] = listing
        return listing

    def _file(self, path: str) -> FoundFile | None:
        """Return a skill's file; None if it no longer exists."""
        try:
            about = os.stat(path)
        except OSError:
            return None
        known = self._before.files.get(path)
        stamp = (about.st_size, about.st_mtime_ns, about.st_ino)
        if known is None or known.stamp != stamp:
            text = _read_within(path, self._within)
            known = FoundFile(path, text.head, stamp, hashlib.sha256(text.content).hexdigest()[:16])
        if known.head.problem != _OUTSIDE:
            self.now.files[path] = known
        return known


_OUTSIDE = "it is a link that leads out of the project"


def is_within_bounds(place: Place) -> bool:
    """Return True if the folder of a place is searched; a project's folder must not lead out of the project by a
    link."""
    return f"{os.path.realpath(place.folder)}/".startswith(_bound(place))


def read_skills(place: Place) -> Iterator[SkillText]:
    """Yield the usable skills of a place, without a cache."""
    for found in _Scan(place, _KnownPlace(), []).files():
        yield _read_within(found.path, _bound(place))


def read_skill(skill: Skill) -> SkillText:
    """Read the current file of a skill; its head says if something makes it unusable."""
    return _read_within(skill.path, _bound(skill.place))


def _read_within(path: str, bound: str) -> SkillText:
    real = os.path.realpath(path)
    if not f"{real}/".startswith(bound):
        return SkillText(b"", "", SkillHead(problem=_OUTSIDE))
    from .parse import parse_skill

    try:
        return parse_skill(read_regular(real, LARGEST_BYTES + 1), path)
    except OSError as error:
        return SkillText(b"", "", SkillHead(problem=f"it cannot be read: {error.strerror}"))


def _bound(place: Place) -> str:
    """Return the folder that links of a place must not leave, with a trailing slash; empty for no limit."""
    return f"{_project_of(place.folder)}/" if place.origin == "project" else ""


def _project_of(folder: Path) -> str:
    """Return the real folder of the project that a place belongs to: the nearest one with a repository."""
    owner = folder.parent.parent
    found = next((each for each in (owner, *owner.parents) if (each / ".git").exists()), owner)
    return os.path.realpath(found).rstrip("/")


def _listed(folder: str, about: os.stat_result) -> _Listing:
    names: set[str] = set()
    folders, links = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in FILE_NAMES:
                names.add(entry.name)
            elif entry.name in _SKIPPED:
                continue
            elif entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    file = next((name for name in FILE_NAMES if name in names), "")
    return _Listing(about.st_mtime_ns, about.st_ino, file, tuple(sorted(folders)), tuple(sorted(links)))


class FoundSkills(msgspec.Struct, frozen=True):
    """The skills found."""

    skills: tuple[Skill, ...] = ()
    """Sorted by name."""
    off: tuple[Skill, ...] = ()
    """Skills that the configuration switches off."""
    notes: tuple[tuple[str, str], ...] = ()
    """Files that are left out, or in which something is wrong, each with the reason."""

    def named(self, name: str) -> Skill | None:
        """Return the skill of a name."""
        return next((skill for skill in self.skills if skill.name == name), None)


def find_skills(places: Sequence[Place], cache: SkillCache, disabled: Collection[str] = ()) -> FoundSkills:
    """Return the skills of some places, in order of precedence. A folder reached in several ways counts once, and
    so do copies of one file for several agents in the same project or home.

    Args:
        places: from `places.places`.
        cache: data from earlier scans; it is updated.
        disabled: names of skills that are switched off.
    """
    notes: list[tuple[str, str]] = []
    skills: dict[str, Skill] = {}
    seen: set[str] = set()
    firsts: dict[tuple[str, str, str], tuple[Place, str]] = {}
    for place in places:
        for file in cache.files(place, notes):
            key = place.origin, os.path.basename(os.path.dirname(file.path)), file.digest
            home, first = firsts.setdefault(key, (place, file.path))
            if file.path in seen:
                continue
            if home is not place and not place.plugin:
                notes.append((file.path, f"it is a copy of {first}, which is used"))
            else:
                seen.add(file.path)
                name = unique_name(file.head.name, place, skills.__contains__)
                skills[name] = Skill(name, file.path, place, file.head, file.stamp)
                notes += [(file.path, note) for note in file.head.notes]
                if name != file.head.name and not place.plugin:
                    notes.append((file.path, f"another skill is named {file.head.name}; this one is {name}"))
    cache.save()
    found = [skills[name] for name in sorted(skills)]
    off = tuple(skill for skill in found if not {skill.name, skill.path}.isdisjoint(disabled))
    usable = tuple(skill for skill in found if skill not in off) if off else tuple(found)
    return FoundSkills(usable, off, tuple(notes))
