"""Parse patches as models write them: the `*** Begin Patch` format, and unified diffs with or without git headers.
Counts and line numbers are only hints, since they are often wrong."""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from ..kit.base import ToolError

NO_FILE = "/dev/null"
_UNIFIED_RANGE = re.compile(r"^@@+ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_HEADERS = (
    "index ", "similarity index", "dissimilarity index", "old mode", "new mode", "rename ",
    "new file", "deleted file",
)  # fmt: skip
_NOTED = ("rename from", "rename to", "old mode", "new mode", "new file mode", "deleted file mode")
_BEFORE = re.compile(r"@@|--- \S|\+\+\+ \S|diff --git ")
"""Lines that begin a change, used where the patch envelope has not begun."""
_BEHIND = re.compile(r"[ +-].*\S|@@|\*\*\* |diff --git ")
"""Lines that belong to a change, used where the patch has ended."""


_IN_A_COMMAND = lazy_regex(r"\s*apply_?patch\s+<<\s*(['\"])(\S+)\1[ \t]*\n(.*)", re.DOTALL)


class Hunk(msgspec.Struct, frozen=True):
    """Lines to find, and their replacement."""

    line: int
    """First line of the hunk in the patch, from 1."""
    body: tuple[tuple[str, str], ...]
    """Pairs of mark (` `, `-` or `+`) and line without its line ending."""
    anchors: tuple[str, ...] = ()
    """Lines somewhere above the hunk, outermost first."""
    at: int | None = None
    """Stated start line in the old file."""
    at_end: bool = False
    """True if the hunk reaches the end of the file."""
    old_unended: bool = False
    """True if the last old line has no line ending; `new_unended` for the new text."""
    new_unended: bool = False

    @property
    def old(self) -> str:
        """The text to find."""
        return self._side("-", self.old_unended)

    @property
    def new(self) -> str:
        """The replacement text."""
        return self._side("+", self.new_unended)

    def _side(self, mark: str, unended: bool) -> str:
        lines = [text for kind, text in self.body if kind in (" ", mark)]
        return "\n".join(lines) + ("" if unended or not lines else "\n")


def patch_in_command(command: str) -> str:
    """Return the patch in a command line that only applies one, `apply_patch <<'EOF'` or `apply_patch '…'`: GPT
    models know such a program from Codex. Empty for any other command."""
    found = _IN_A_COMMAND.fullmatch(command)
    if found is None:
        return _quoted_patch(command.strip())
    patch, end, rest = found[3].partition(f"\n{found[2]}")
    return f"{patch}\n" if end and not rest.strip() and patch.startswith("*** Begin Patch") else ""


def _quoted_patch(command: str) -> str:
    """Return the patch that is the only argument, in quotes that a shell takes as they are."""
    import shlex

    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    match words:
        case ["apply_patch" | "applypatch", patch] if patch.startswith("*** Begin Patch"):
            return patch if shlex.join(words) == command else ""
    return ""


class FilePatch(msgspec.Struct, frozen=True):
    """The changes to one file."""

    kind: Literal["add", "update", "delete"]
    path: str
    line: int
    target: str = ""
    """New path of a moved file; otherwise empty."""
    hunks: tuple[Hunk, ...] = ()
    prefixed: bool = False
    """True if `a/` and `b/` were removed from the paths."""
    executable: bool | None = None
    """Whether the file becomes executable; None to leave the mode unchanged."""


def parse(text: str) -> tuple[FilePatch, ...]:
    """Return the changed files of a patch, in order.

    Raises:
        ToolError: it is not a valid patch; the message names the line and what was expected.
    """
    lines = _Cursor(text)
    if any(line.startswith(("*** Begin Patch", "*** Update File:", "*** Add File:")) for line in lines.all):
        files = _enveloped(lines)
    else:
        files = _unified(lines)
    if not files:
        raise ToolError(
            "The patch names no file. Nothing was changed. Begin with `*** Begin Patch` and `*** Update File:"
            " PATH`, or with `--- a/PATH` and `+++ b/PATH`."
        )
    return tuple(_together(files))


def _together(files: list[FilePatch]) -> list[FilePatch]:
    """Join several headers for one file that only update it."""
    found: dict[str, FilePatch] = {}
    out: list[FilePatch] = []
    for file in files:
        first = found.get(file.path)
        if first is not None and all(each.kind == "update" and not each.target for each in (first, file)):
            executable = first.executable if file.executable is None else file.executable
            joined = msgspec.structs.replace(first, hunks=(*first.hunks, *file.hunks), executable=executable)
            out[out.index(first)] = found[file.path] = joined
        else:
            found[file.path] = file
            out.append(file)
    return out


class _Cursor:
    """A position in the lines of a text."""

    def __init__(self, text: str) -> None:
        self.all = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
        self._as_given = text.split("\n")
        self.at = 0

    @property
    def line(self) -> str | None:
        """The current line; None after the last."""
        return self.all[self.at] if self.at < len(self.all) else None

    @property
    def number(self) -> int:
        """Number of the current line, from 1."""
        return self.at + 1

    def peek(self, ahead: int = 1) -> str:
        """Return a later line; empty after the last."""
        return self.all[self.at + ahead] if self.at + ahead < len(self.all) else ""

    def has_own_ends(self, ahead: int = 0) -> bool:
        """Return True if carriage returns in the lines of a new file belong to it, because the header, so many
        lines ahead, has none."""
        return not self._as_given[self.at + ahead].endswith("\r")

    def whole(self) -> str:
        """Return the current line with the carriage return at its end, if it has one."""
        return self.all[self.at] + ("\r" if self._as_given[self.at].endswith("\r") else "")

    def wrong(self, expected: str) -> ToolError:
        """Return the error for the current line."""
        line = self.line
        found = "the patch ends" if line is None else f"there is {line[:80]!r}"
        return ToolError(
            f"The patch cannot be read at line {self.number}: {found}, expected {expected}. Nothing was changed."
        )


def _enveloped(lines: _Cursor) -> list[FilePatch]:
    while not (lines.line or "").startswith("*** "):
        if _BEFORE.match(lines.line or ""):
            raise lines.wrong("nothing but the patch; put all changes into one form")
        lines.at += 1
    if (lines.line or "").startswith("*** Begin Patch"):
        lines.at += 1
    files: list[FilePatch] = []
    while True:
        line = lines.line
        if line is not None and not line.strip():
            lines.at += 1
        elif line is not None and line.startswith("*** End Patch"):
            lines.at += 1
            if not _goes_on(lines):
                return files
        elif line is not None and (reader := _reader(line)):
            start, lines.at = lines.number, lines.at + 1
            files.append(reader(lines, line.partition(":")[2].strip(), start))
            if not files[-1].path:
                raise ToolError(f"Line {start} of the patch names no path. Nothing was changed.")
        else:
            raise lines.wrong(
                "`*** Update File: PATH`, `*** Add File: PATH`, `*** Delete File: PATH` or `*** End Patch`"
            )


def _goes_on(lines: _Cursor) -> bool:
    """Return True if another envelope follows, and move the cursor past its first line.

    Raises:
        ToolError: lines of a change follow outside any envelope.
    """
    while (line := lines.line) is not None:
        if not line.startswith("*** Begin Patch"):
            _refuse_loose(lines)
        lines.at += 1
        if line.startswith("*** Begin Patch"):
            return True
    return False


def _refuse_loose(lines: _Cursor) -> None:
    """Refuse a line of a change after everything that was parsed; it would be silently lost otherwise."""
    line = lines.line or ""
    if line == "-- " or line.startswith("*** End Patch"):  # an e-mail signature, or a repeated end
        return
    if _BEHIND.match(line):
        raise lines.wrong("nothing more: it belongs to no change that was begun")


def _reader(line: str) -> Callable[[_Cursor, str, int], FilePatch] | None:
    readers = {"*** Update File:": _update, "*** Add File:": _add, "*** Delete File:": _delete}
    return next((reader for head, reader in readers.items() if line.startswith(head)), None)


def _add(lines: _Cursor, path: str, start: int) -> FilePatch:
    body: list[tuple[str, str]] = []
    first = lines.number
    keeps = lines.has_own_ends(-1)
    while (line := lines.line) is not None and not line.startswith("*** "):
        if line and not line.startswith("+"):
            raise lines.wrong("a line of the new file, with + before it")
        body.append(("+", (lines.whole() if keeps else line)[1:]))
        lines.at += 1
    return FilePatch("add", path, start, hunks=(Hunk(first, tuple(body)),) if body else ())


def _delete(lines: _Cursor, path: str, start: int) -> FilePatch:
    return FilePatch("delete", path, start)


def _update(lines: _Cursor, path: str, start: int) -> FilePatch:
    target = ""
    if lines.line is not None and lines.line.startswith("*** Move to:"):
        target = lines.line.partition(":")[2].strip()
        lines.at += 1
    hunks: list[Hunk] = []
    while (line := lines.line) is not None and (not line.startswith("*** ") or line.startswith("*** End of File")):
        if not line and lines.peek().startswith(("*** ", "@@")):
            lines.at += 1
            continue
        hunks.append(_envelope_hunk(lines))
    if not hunks and not target:
        raise lines.wrong(f"changes for {path}: `@@`, then lines that begin with a space, - or +")
    return FilePatch("update", path, start, target, tuple(hunks))


def _envelope_hunk(lines: _Cursor) -> Hunk:
    start, anchors, at = lines.number, [], None
    while (line := lines.line) is not None and line.startswith("@@"):
        if found := _UNIFIED_RANGE.match(line):
            at = int(found.group(1))
        elif text := line[2:].strip().removesuffix("@@").strip():
            anchors.append(text)
        lines.at += 1
    body: list[tuple[str, str]] = []
    while (line := lines.line) is not None and not line.startswith(("@@", "*** ")):
        if not line and lines.peek().startswith(("@@", "*** ")):
            break
        if line and line[0] not in " +-":
            raise lines.wrong("a line that begins with a space (context), - or +")
        body.append((line[:1] or " ", line[1:]))
        lines.at += 1
    at_end = (lines.line or "").startswith("*** End of File")
    lines.at += at_end
    if not body:
        raise lines.wrong("the lines of the change")
    return Hunk(start, tuple(body), tuple(anchors), at, at_end)


def _unified(lines: _Cursor) -> list[FilePatch]:
    files: list[FilePatch] = []
    while (line := lines.line) is not None:
        if line.startswith("diff --git "):
            files.append(_git_file(lines))
        elif line.startswith("--- ") and lines.peek().startswith("+++ "):
            files.append(_plain_file(lines, {}))
        elif line.startswith("@@"):
            raise lines.wrong("`--- a/PATH` and `+++ b/PATH` before the first `@@`")
        else:
            if files:
                _refuse_loose(lines)
            lines.at += 1
    return files


def _git_file(lines: _Cursor) -> FilePatch:
    start = lines.number
    names = _git_names((lines.line or "").removeprefix("diff --git "))
    headers: dict[str, str] = {}
    lines.at += 1
    while (line := lines.line) is not None and not line.startswith(("--- ", "diff --git ")):
        if line.startswith(("GIT binary patch", "Binary files")):
            raise lines.wrong("text (a binary change cannot be applied)")
        if line.startswith("copy "):
            raise lines.wrong("a change of one file (a copy cannot be applied: add the new file instead)")
        if line.endswith(("mode 120000", "mode 160000")):
            raise lines.wrong("an ordinary file (links and submodules cannot be made or changed)")
        for name in _NOTED:
            if line.startswith(f"{name} "):
                headers[name] = _unquoted(line[len(name) + 1 :])
        if line and not line.startswith(_HEADERS):
            break
        lines.at += 1
    if lines.line is not None and lines.line.startswith("--- ") and lines.peek().startswith("+++ "):
        return _plain_file(lines, headers)
    executable = _executable(headers)
    if "rename from" in headers:
        return FilePatch(
            "update", headers["rename from"], start, headers.get("rename to", ""), executable=executable
        )
    if "new file mode" in headers:
        return FilePatch("add", names, start, executable=executable)
    if "deleted file mode" in headers:
        return FilePatch("delete", names, start)
    if executable is not None:
        return FilePatch("update", names, start, executable=executable)
    raise lines.wrong("`--- a/PATH` and `+++ b/PATH`")


def _executable(headers: dict[str, str]) -> bool | None:
    """Return whether git's mode headers make the file executable; None if they do not say."""
    new = headers.get("new mode", headers.get("new file mode", ""))
    if not new or ("new mode" in headers and new == headers.get("old mode")):
        return None
    return True if new.endswith("755") else False if "new mode" in headers else None


def _git_names(text: str) -> str:
    """Return the path in `a/x b/x` or `x x`."""
    first, second = text[: len(text) // 2], text[len(text) // 2 + 1 :]
    if first == second:  # a patch without prefixes; the folder may really be called `b`
        return _unquoted(second)
    return _unquoted(second if text.startswith("a/") else text.rpartition(" ")[2]).removeprefix("b/")


def _plain_file(lines: _Cursor, headers: dict[str, str]) -> FilePatch:
    start = lines.number
    old, new = _name((lines.line or "")[4:]), _name(lines.peek()[4:])
    keeps = lines.has_own_ends() and (old == NO_FILE or "new file mode" in headers)
    lines.at += 2
    prefixed = old.startswith("a/") or new.startswith("b/")
    prefixed = prefixed and (old.startswith("a/") or old == NO_FILE) and (new.startswith("b/") or new == NO_FILE)
    if prefixed:
        old, new = old.removeprefix("a/"), new.removeprefix("b/")
    hunks: list[Hunk] = []
    while lines.line is not None and lines.line.startswith("@@"):
        hunks.append(_unified_hunk(lines, keeps))
    if not hunks and "rename from" not in headers:
        raise lines.wrong("`@@ -LINE,COUNT +LINE,COUNT @@`")
    if old == NO_FILE or "new file mode" in headers:
        return FilePatch("add", new, start, hunks=tuple(hunks), prefixed=prefixed, executable=_executable(headers))
    if new == NO_FILE or "deleted file mode" in headers:
        return FilePatch("delete", old, start, hunks=tuple(hunks), prefixed=prefixed)
    target = "" if old == new or new == f"{old}.orig" else new
    return FilePatch("update", old, start, target, tuple(hunks), prefixed, _executable(headers))


def _name(text: str) -> str:
    """Return the path in a `---` or `+++` line, which may have a time after a tab."""
    return _unquoted(text.partition("\t")[0].strip())


def _unquoted(text: str) -> str:
    """Return a path that git may have quoted, with octal escapes for bytes."""
    text = text.strip()
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    raw = re.sub(rb"\\([0-7]{3}|.)", _escaped_byte, text[1:-1].encode())
    return raw.decode("utf-8", "replace")


def _escaped_byte(found: re.Match[bytes]) -> bytes:
    code = found.group(1)
    return bytes([int(code, 8) & 255]) if len(code) == 3 else {b"t": b"\t", b"n": b"\n"}.get(code, code)


def _unified_hunk(lines: _Cursor, keeps: bool) -> Hunk:
    """`keeps`: carriage returns at the ends of lines belong to the file."""
    start, found = lines.number, _UNIFIED_RANGE.match(lines.line or "")
    lines.at += 1
    counts = [int(found.group(index) or 1) for index in (2, 4)] if found else None
    body: list[tuple[str, str]] = []
    unended = {"-": False, "+": False}
    while (line := lines.line) is not None and not _ends_hunk(lines, body, counts):
        if line.startswith("\\"):
            mark = body[-1][0] if body else " "
            unended.update({mark: True} if mark != " " else {"-": True, "+": True})
        elif line and line[0] not in " +-":
            raise lines.wrong("a line that begins with a space (context), - or +, or another `@@`")
        else:
            body.append((line[:1] or " ", (lines.whole() if keeps else line)[1:]))
        lines.at += 1
    while body and body[-1] == (" ", "") and not (counts and _size(body) == counts):
        body.pop()
    if not body:
        raise lines.wrong("the lines of the change")
    at = int(found.group(1)) if found else None
    return Hunk(start, tuple(body), (), at, False, unended["-"], unended["+"])


def _size(body: list[tuple[str, str]]) -> list[int]:
    return [sum(kind in (" ", mark) for kind, _ in body) for mark in "-+"]


def _ends_hunk(lines: _Cursor, body: list[tuple[str, str]], counts: list[int] | None) -> bool:
    line = lines.line or ""
    if line.startswith(("@@ ", "diff --git ")) or line == "@@" or line.startswith("```"):
        return True
    complete = counts is not None and _size(body) == counts
    if (
        line.startswith("--- ")
        and lines.peek().startswith("+++ ")
        and (complete or lines.peek(2).startswith("@@"))
    ):
        return True
    if line in ("-- ", "--") and (complete or not lines.peek(3)):
        return complete
    return complete and (line or lines.peek() or " ")[0] not in " +-\\"
