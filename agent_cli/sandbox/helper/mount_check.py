"""Check that the mounts of a sandbox are the requested ones. Bubblewrap mounts by path, one after the other, while
an earlier command may still run and replace a folder by a link: the mount would then be elsewhere and expose
what is hidden or read-only. So the finished mounts are read from the kernel before the command starts.

Part of the supervisor: nothing here may import slow modules.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    ExpectedMounts = Sequence[tuple[bytes, bytes, bool]]
    """Mount point, source (empty: a new tmpfs) and whether it is read-only."""

_OF_THE_KERNEL = (b"/dev/", b"/proc/", b"/sys/")


class Mount:
    """A line of `mountinfo`."""

    def __init__(self, line: bytes) -> None:
        """Parse a line.

        Raises:
            ValueError, IndexError: the line is malformed.
        """
        words = line.split(b" ")
        self.id, self.parent, self.device = int(words[0]), int(words[1]), words[2]
        self.root, self.mount_point = _plain(words[3]), _plain(words[4])
        self.is_fixed = b"ro" in words[5].split(b",")
        self.kind = words[words.index(b"-", 6) + 1]

    @property
    def what(self) -> tuple[bytes, bytes, bytes]:
        """The mount point and the mounted device and path."""
        return self.mount_point, self.device, self.root


class MountTree:
    """The mounts that a process sees, parsed from its `mountinfo`."""

    def __init__(self, data: bytes) -> None:
        """Parse the content of `mountinfo`.

        Raises:
            ValueError, IndexError: it is malformed or has no root.
        """
        self.all = [Mount(line) for line in data.splitlines()]
        ids = {mount.id for mount in self.all}
        self._inner = {(mount.parent, mount.mount_point): mount for mount in self.all}
        outer = [mount for mount in self.all if mount.mount_point == b"/" and mount.parent not in ids]
        self._root = self._uppermost(outer[0], b"/")
        self.devices = {mount.device for mount in self.all}

    def at(self, path: bytes) -> Mount:
        """Return the mount that is visible at a path; links are not followed."""
        mount, place = self._root, b""
        for name in filter(None, path.split(b"/")):
            place += b"/" + name
            mount = self._uppermost(mount, place)
        return mount

    def shown(self, path: bytes) -> tuple[bytes, bytes]:
        """Return the device that is visible at a path, and the path on that device."""
        mount = self.at(path)
        below = path[len(mount.mount_point) :] if mount.mount_point != b"/" else path
        return mount.device, b"/" + b"/".join(filter(None, (mount.root + b"/" + below).split(b"/")))

    def _uppermost(self, mount: Mount, place: bytes) -> Mount:
        seen = set()
        while (over := self._inner.get((mount.id, place))) and over.id not in seen:
            seen.add(over.id)
            mount = over
        return mount


def are_complete(inside: MountTree) -> bool:
    """Return True if all mounts are complete; before that they are below another root, where `/dev` is not a
    tmpfs."""
    device = inside.at(b"/dev")
    return (
        device.mount_point == b"/dev"
        and device.kind == b"tmpfs"
        and inside.at(b"/newroot").mount_point != b"/newroot"
    )


def misplaced_mounts(expected: "ExpectedMounts", inside: MountTree, outside: MountTree) -> bytes:
    """Return the first mount point where something other than requested is mounted; empty if there is none.
    `inside` are the mounts of the sandbox, `outside` ours, read after those."""
    for place, source, is_fixed in _uncovered(expected):
        mount = inside.at(place)
        if mount.mount_point != place or (is_fixed and not mount.is_fixed):
            return place
        if not _is_new(mount, outside) if not source else (mount.device, mount.root) != outside.shown(source):
            return place
    return _unasked(expected, inside, outside)


def _uncovered(expected: "ExpectedMounts") -> "ExpectedMounts":
    """Return the mounts that remain visible: no later one covers the same place or a folder above it."""
    later: set[bytes] = set()
    found = []
    for one in reversed(expected):
        names = one[0].split(b"/")
        above = {b"/".join(names[:count]) or b"/" for count in range(1, len(names) + 1)}
        if not above & later:
            found.append(one)
        later.add(one[0])
    return found[::-1]


def _unasked(expected: "ExpectedMounts", inside: MountTree, outside: MountTree) -> bytes:
    """Return a mount point that is neither requested nor a copy of one of ours. Each of ours appears once, plus
    once for each folder above it that was mounted again."""
    left: dict[tuple[bytes, bytes, bytes], int] = {}
    again = [_prefix(place) for place, source, _ in expected if source == place]
    for mount in outside.all:
        at = _prefix(mount.mount_point)
        copies = sum(map(at.startswith, again))
        left[mount.what] = left.get(mount.what, 0) + max(copies, 1)
    for place, source, _ in expected:
        if source:
            what = (place, *outside.shown(source))
            left[what] = left.get(what, 0) + 1
    places = {place for place, source, _ in expected if not source}
    for mount in inside.all:
        if _prefix(mount.mount_point).startswith(_OF_THE_KERNEL) or (
            mount.mount_point in places and _is_new(mount, outside)
        ):
            continue
        left[mount.what] = left.get(mount.what, 0) - 1
        if left[mount.what] < 0:
            return mount.mount_point
    return b""


def _is_new(mount: Mount, outside: MountTree) -> bool:
    return mount.kind == b"tmpfs" and mount.root == b"/" and mount.device not in outside.devices


def _prefix(place: bytes) -> bytes:
    """Return the prefix of all paths at and below a place, with a trailing slash."""
    return place.rstrip(b"/") + b"/"


def _plain(text: bytes) -> bytes:
    """Decode the octal escapes of `mountinfo`, such as those for spaces."""
    if b"\\" not in text:
        return text
    first, *others = text.split(b"\\")
    return first + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in others)


def read(pid: "int | str") -> MountTree:
    """Return the mounts of a process.

    Raises:
        OSError: the process is gone, or access is denied.
        ValueError, IndexError: the kernel's list is malformed.
    """
    with open(f"/proc/{pid}/mountinfo", "rb", buffering=0) as file:  # noqa: PTH123
        return MountTree(b"".join(_chunks(file)))


def _chunks(file: "object") -> "Iterable[bytes]":
    while chunk := file.read(1 << 16):  # type: ignore[attr-defined]
        yield chunk
