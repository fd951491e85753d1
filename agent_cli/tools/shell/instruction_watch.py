"""Detect instruction files that commands change while untrusted text is in the conversation. All files that later
conversations would receive as instructions are compared before and after each command, since a program does not
declare what it writes."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent_cli.sandbox.process.running import Running
from agent_cli.workspace.instructions import InstructionFiles, instruction_bytes
from agent_cli.workspace.matching_files import MatchingFiles
from agent_cli.workspace.paths import Workspace


class InstructionWatch:
    """Watches instruction files for one session. The state to compare with is kept as long as any command runs."""

    def __init__(
        self,
        workspace: Workspace,
        names: Sequence[str],
        may_read: Callable[[str], bool],
        untrusted: Callable[[], str],
        doubt: Callable[[str, bytes], None],
        others: Sequence[str] = (),
    ) -> None:
        """`untrusted` returns the source of untrusted text in the conversation, empty if there is none. `doubt`
        records that a file, by its real path, has this content from a command. `others` are names of further files
        that conversations may receive."""
        self._workspace = workspace
        self._ends = tuple(f"/{name}" for name in names)
        self._others = tuple(f"/{name}" for name in others)
        self._names = names
        self._may_read = may_read
        self._untrusted = untrusted
        self._doubt = doubt
        self._walked: MatchingFiles | None = None
        self._chains: dict[Path, InstructionFiles] = {}
        self._before: Mapping[str, str] | None = None
        self._alive: list[Running] = []

    def begin(self, *, brings: bool) -> None:
        """Record the current files before a command, unless a running one may have changed them. `brings`: the
        command itself may add untrusted text."""
        if not self._alive:
            self._before = self._given() if brings or self._untrusted() else None

    def started(self, running: Running) -> None:
        """Record that a command was started."""
        self._alive.append(running)

    def look(self, source: str = "") -> list[str]:
        """Report changes since the last check, in words; `source` is the source of newly added untrusted text. If
        no command has run since, the user made the changes."""
        alive = [each for each in self._alive if each.is_alive]
        was_any, self._alive = bool(self._alive), alive
        source = self._untrusted() or source
        if not was_any or not source or self._before is None:
            return []
        now = self._given()
        changed = [path for path, content in now.items() if self._before.get(path) != content]
        self._before = now
        if not changed:
            return []
        names = ", ".join(map(self._workspace.relative, changed))
        then = "later conversations are given it as data until you agree to it at a start of `agent`"
        try:
            for path in changed:
                self._doubt(path, instruction_bytes(path))
        except OSError as error:
            then = (
                f"that could not be noted ({error.strerror}), so look at it before you start another conversation"
            )
        return [f"{names} changed while text from {source} is in the conversation: {then}"]

    def _given(self) -> dict[str, str]:
        """Return real path → hash of everything that a conversation in any folder of the workspace may receive."""
        if self._walked is None:
            self._walked = MatchingFiles(
                self._workspace.roots, lambda path: path.endswith((*self._ends, *self._others)), links=True
            )
        found = set[str]()
        folders = set(self._workspace.roots)
        for path in self._walked.paths():
            found.add(os.path.realpath(path))  # unlike Path.resolve, of a link to itself too
            folders.update(Path(path[: -len(end)]) for end in self._ends if path.endswith(end))
        for folder in sorted(folders):
            chain = self._chains.setdefault(folder, InstructionFiles(folder, self._names, None, self._may_read))
            chain.read()
            found.update(chain.files)
        given = {}
        for path in sorted(found):
            with suppress(OSError):
                given[path] = hashlib.sha256(instruction_bytes(path)).hexdigest()
        return given
