"""Secrets of all runs, in one small file of the state folder: names and keyed hashes, never values. A value stays
masked by it after it was removed from variables and configuration.

The key is random, created with the file and stored only in it: no session, export or report holds a hash. If the
file is unusable, secrets known in this run are still masked, so nothing here raises.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, read_regular, replace_file
from agent_cli.protocol.json_text import decode_json
from agent_cli.redaction.fingerprints import KnownSecret, Recognizer, digest, known_secret
from agent_cli.redaction.redactor import forms, secret_lines

_MOST = 300
"""Maximum number of secrets; the one not seen for longest is forgotten first."""
_LARGEST_BYTES = 4_000_000
_LOCK_S = 2.0
"""Others hold the lock for milliseconds, unless the machine is very busy."""


class _Content(msgspec.Struct, frozen=True):
    key: str
    secrets: tuple[KnownSecret, ...] = ()


class KnownSecretsFile:
    """The secrets of all runs. Concurrent programs do not overwrite each other's data."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def recognizer(self, known: Mapping[str, str]) -> Recognizer:
        """Return a recognizer for the secrets of all runs, adding this run's: `known` are its values by name."""
        lines = secret_lines(known)
        content = self._read()
        if self.path.parent.is_dir() and (content is None or _unknown(content, lines)) and lines:
            with contextlib.suppress(OSError), file_lock(self.path, _LOCK_S):
                content = _with(self._read() or _Content(os.urandom(32).hex()), lines)
                replace_file(self.path, msgspec.json.encode(content))
        return Recognizer(bytes.fromhex(content.key), content.secrets) if content else Recognizer()

    def _read(self) -> _Content | None:
        try:
            content = decode_json(read_regular(self.path, _LARGEST_BYTES), type=_Content)
        except (OSError, msgspec.DecodeError):
            return None
        sound = len(content.key) == 64 and all(each.forms for each in content.secrets)
        try:
            bytes.fromhex(content.key)
        except ValueError:
            return None
        return content if sound else None


def _unknown(content: _Content, lines: Mapping[str, str]) -> list[str]:
    """Return the lines without a stored fingerprint."""
    key = bytes.fromhex(content.key)
    kept = {each.forms[0].digest for each in content.secrets}
    return [line for line in lines if digest(key, line) not in kept]


def _with(content: _Content, lines: Mapping[str, str]) -> _Content:
    """Return the content with fingerprints of `lines` added; these are forgotten last."""
    key = bytes.fromhex(content.key)
    here = {digest(key, line) for line in lines}
    used = [each for each in content.secrets if each.forms[0].digest in here]
    others = [each for each in content.secrets if each.forms[0].digest not in here]
    new = [known_secret(key, lines[line], line, forms(line)) for line in _unknown(content, lines)]
    return _Content(content.key, tuple([*others, *used, *new][-_MOST:]))
