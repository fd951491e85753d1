"""Permission rules saved by the user for a project or for everything: one small JSON file each in the state
directory, with one rule per line so that a rule has a line number."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, read_regular, replace_file
from agent_cli.protocol.json_text import decode_json

from ..session_file import StoreError


class _Grants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    allow: tuple[str, ...] = ()


class GrantFile:
    """Saved rules in one file. Reading is strict: a damaged file is an error, never "no rules"."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rules(self) -> tuple[str, ...]:
        """Return the rules, oldest first.

        Raises:
            StoreError: the file is damaged or unreadable.
        """
        try:
            data = read_regular(self.path, follow=True)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}") from error
        try:
            return decode_json(data, type=_Grants).allow
        except msgspec.DecodeError as error:
            raise StoreError(f"{self.path}: {error}. Fix or delete the file.") from error

    def add(self, rule: str) -> None:
        """Save a rule unless it is already there.

        Raises:
            StoreError: the file cannot be read or written.
        """
        self._change(lambda rules: rules if rule in rules else (*rules, rule))

    def remove(self, rule: str) -> bool:
        """Remove a rule; return False if it is not there.

        Raises:
            StoreError: the file cannot be read or written.
        """
        if rule not in self.rules():
            return False
        self._change(lambda rules: tuple(each for each in rules if each != rule))
        return True

    def _change(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        try:
            with file_lock(self.path):  # concurrent programs lose no rule
                before = self.rules()
                if (after := change(before)) != before:
                    lines = ",\n".join(f"    {msgspec.json.encode(each).decode()}" for each in after)
                    data = f'{{\n  "allow": [\n{lines}\n  ]\n}}\n'.encode()
                    replace_file(self.path, data, durable=True)
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error.strerror}") from error
