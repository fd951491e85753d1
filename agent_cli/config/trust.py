"""The user's consent to files that projects bring, by place and content."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, read_regular, reason_of, replace_file
from agent_cli.protocol.json_text import decode_json

from .layer import ConfigError, Layer
from .load import PROJECT_FILE
from .yaml_file import parse

TOOLS_FOLDER = Path(".agent") / "tools"
_MAX_TOOL_FILES = 200
_MAX_BYTES = 1_000_000
_NEVER = "never:"
"""Prefix of the hash of content the user does not want to be asked about again."""
_DOUBTFUL = "others:"
"""Prefix of the hash of content written while untrusted text was in the conversation."""


class Trust:
    """The user's decisions about project files, in one file of the state directory: for each place the hash of the
    exact content that was shown, and the answer, yes or never."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def project_layer(self, root: Path) -> tuple[Layer | None, bytes | None]:
        """Return the project's configuration if the user has agreed to its exact content; otherwise the content of
        the ignored file, if there is one.

        Raises:
            ConfigError: a trusted file is invalid, or an existing one cannot be read.
        """
        file = root / PROJECT_FILE
        if not file.is_file():
            return None, None
        data = _small_file(file)
        if data is None:
            raise ConfigError(f"{file}: it cannot be read, or is larger than {_MAX_BYTES:,} bytes")
        if not self.knows(str(file), data):
            return None, data
        return parse(data, file), None

    def knows(self, place: str, content: bytes) -> bool:
        """Return True if the user has agreed to the exact content of a place.

        Raises:
            ConfigError: the decisions cannot be read.
        """
        return self._answer(place) == _digest(content)

    def refuses(self, place: str, content: bytes) -> bool:
        """Return True if the user does not want to be asked about this exact content again.

        Raises:
            ConfigError: the decisions cannot be read.
        """
        return self._answer(place) == _NEVER + _digest(content)

    def doubts(self, place: str, content: Callable[[], bytes]) -> bool:
        """Return True if the exact content of a place may come from untrusted text and the user has not agreed to
        it. `content` is called only if there is a doubt about the place.

        Raises:
            ConfigError: the decisions cannot be read.
        """
        known = self._answer(place)
        return known.startswith((_DOUBTFUL, _NEVER)) and known.endswith(f":{_digest(content())}")

    def has_doubts(self) -> bool:
        """Return True if there is a doubt about any place."""
        return any(known.startswith((_DOUBTFUL, _NEVER)) for known in self._known().values())

    def doubt(self, place: str, content: bytes) -> None:
        """Record that the content of a place may come from untrusted text.

        Raises:
            ConfigError: it could not be saved.
        """
        self._note(place, _DOUBTFUL + _digest(content))

    def remember(self, place: str, content: bytes, *, agreed: bool = True) -> None:
        """Record the user's answer to this content; it replaces answers to other content of the place.

        Raises:
            ConfigError: the answer could not be saved.
        """
        self._note(place, ("" if agreed else _NEVER) + _digest(content))

    def _note(self, place: str, said: str) -> None:
        try:
            with file_lock(self._path):
                known = {**self._known(), _key(place): said}
                replace_file(self._path, msgspec.json.format(msgspec.json.encode(known)))
        except OSError as error:
            raise ConfigError(f"cannot write {self._path}: {error.strerror}") from error

    def _answer(self, place: str) -> str:
        return self._known().get(_key(place), "")

    def _known(self) -> dict[str, str]:
        try:
            return decode_json(read_regular(self._path, follow=True), type=dict[str, str])
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"{self._path}: {reason_of(error, self._path)}. Delete it to be asked again."
            ) from error


def _key(place: str) -> str:
    """Return a place in a form that JSON can hold, unique for each path that is not UTF-8."""
    return place.encode("utf-8", "backslashreplace").decode("utf-8")


def tool_sources(root: Path) -> dict[str, bytes]:
    """Return the Python files in `.agent/tools` and its subfolders by their path from the root. Files that are not
    small and regular are left out, since a repository must not be able to prevent the program from starting; so
    is a folder that is a link."""
    folder = root / TOOLS_FOLDER
    files = sorted(folder.rglob("*.py")) if os.path.realpath(folder) == str(folder) else []
    found = {str(file.relative_to(root)): _small_file(file) for file in files[:_MAX_TOOL_FILES]}
    return {path: source for path, source in found.items() if source is not None}


def _small_file(file: Path) -> bytes | None:
    try:
        data = read_regular(file, _MAX_BYTES + 1, follow=True)
    except OSError:
        return None
    return data if len(data) <= _MAX_BYTES else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
