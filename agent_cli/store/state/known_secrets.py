"""What was a secret in any run, in one small file of the state folder: names and keyed hashes, never a value. By
it a value stays masked where no variable or configuration holds it any more.

The key is random, made with the file and kept in it alone: no session, export or report holds a hash. Whatever is
wrong with the file, what this run knows is masked all the same, so nothing here raises.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, read_regular, replace_file
from agent_cli.redaction.fingerprints import KnownSecret, Recognizer, digest, known_secret
from agent_cli.redaction.redactor import forms, secret_lines

_MOST = 300
"""Secrets; the one that was not seen for longest is forgotten first."""
_LARGEST_BYTES = 4_000_000
_LOCK_S = 2.0
"""Others hold it for milliseconds, unless the machine is very busy."""


class _Content(msgspec.Struct, frozen=True):
    key: str
    secrets: tuple[KnownSecret, ...] = ()


class KnownSecretsFile:
    """The secrets of all runs. Two programs at once lose nothing of each other's."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def recognizer(self, known: Mapping[str, str]) -> Recognizer:
        """Return what recognizes the secrets of all runs, those of this one included: `known` are its values by
        name."""
        lines = secret_lines(known)
        content = self._read()
        if self.path.parent.is_dir() and (content is None or _unknown(content, lines)) and lines:
            with contextlib.suppress(OSError), file_lock(self.path, _LOCK_S):
                content = _with(self._read() or _Content(os.urandom(32).hex()), lines)
                replace_file(self.path, msgspec.json.encode(content))
        return Recognizer(bytes.fromhex(content.key), content.secrets) if content else Recognizer()

    def _read(self) -> _Content | None:
        try:
            content = msgspec.json.decode(read_regular(self.path, _LARGEST_BYTES), type=_Content)
        except (OSError, msgspec.DecodeError, UnicodeError):
            return None
        sound = len(content.key) == 64 and all(each.forms for each in content.secrets)
        try:
            bytes.fromhex(content.key)
        except ValueError:
            return None
        return content if sound else None


def _unknown(content: _Content, lines: Mapping[str, str]) -> list[str]:
    """Return the lines of which no fingerprint is kept."""
    key = bytes.fromhex(content.key)
    kept = {each.forms[0].digest for each in content.secrets}
    return [line for line in lines if digest(key, line) not in kept]


def _with(content: _Content, lines: Mapping[str, str]) -> _Content:
    """Return the same with the fingerprints of `lines`, which are forgotten last."""
    key = bytes.fromhex(content.key)
    here = {digest(key, line) for line in lines}
    used = [each for each in content.secrets if each.forms[0].digest in here]
    others = [each for each in content.secrets if each.forms[0].digest not in here]
    new = [known_secret(key, lines[line], line, forms(line)) for line in _unknown(content, lines)]
    return _Content(content.key, tuple([*others, *used, *new][-_MOST:]))
