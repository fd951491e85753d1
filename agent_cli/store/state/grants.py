"""Permission rules that the user chose to keep for a project or for everything: one small JSON file each
in the state directory, one rule a line so that a rule's place can be named."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..secure_io import make_private
from ..session_file import StoreError


class _Grants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    allow: tuple[str, ...] = ()


class GrantFile:
    """Kept rules in one file. Reading is strict: a damaged file is an error, never "no rules"."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rules(self) -> tuple[str, ...]:
        """Return the rules, oldest first.

        Raises:
            StoreError: the file is damaged or unreadable.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}") from error
        try:
            return msgspec.json.decode(data, type=_Grants).allow
        except msgspec.DecodeError as error:
            raise StoreError(f"{self.path}: {error}. Fix or delete the file.") from error

    def add(self, rule: str) -> None:
        """Keep a rule; a rule already there is kept once.

        Raises:
            StoreError: the file cannot be read or written.
        """
        with self._alone():
            self._add(rule)

    def _add(self, rule: str) -> None:
        rules = self.rules()
        if rule in rules:
            return
        lines = ",\n    ".join(msgspec.json.encode(each).decode() for each in (*rules, rule))
        self._replace(f'{{\n  "allow": [\n    {lines}\n  ]\n}}\n'.encode())

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Held while the file is read and replaced, so that two processes lose no rule."""
        try:
            make_private(self.path.parent)
            lock = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _replace(self, data: bytes) -> None:
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error.strerror}") from error
