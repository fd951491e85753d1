"""Which of the files that a project brings the user has agreed to, by place and content."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, read_regular, replace_file

from .layer import ConfigError, Layer
from .load import PROJECT_FILE
from .yaml_file import parse

TOOLS_FOLDER = Path(".agent") / "tools"
_MAX_TOOL_FILES = 200
_MAX_BYTES = 1_000_000
_NEVER = "never:"
"""Before the hash of what the user does not want to be asked about again."""
_DOUBTFUL = "others:"
"""Before the hash of what was written while text from others was in the conversation."""


class Trust:
    """What the user has said to what projects bring, kept in one file of the state directory: for each place the
    hash of the very content that was shown, and whether the answer was yes or never."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def project_layer(self, root: Path) -> tuple[Layer | None, bytes | None]:
        """Return the project's configuration when the user has agreed to this very content; else the content of
        the file that is there and does not count.

        Raises:
            ConfigError: a trusted file is wrong, or one that is there cannot be read.
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
        """Return whether the user has agreed to this very content of a place.

        Raises:
            ConfigError: the answers cannot be read.
        """
        return self._answer(place) == _digest(content)

    def refuses(self, place: str, content: bytes) -> bool:
        """Return whether the user does not want to be asked about this very content again.

        Raises:
            ConfigError: the answers cannot be read.
        """
        return self._answer(place) == _NEVER + _digest(content)

    def doubts(self, place: str, content: Callable[[], bytes]) -> bool:
        """Return whether this very content of a place may come from others and the user has not agreed to it.
        `content` is asked only where there is a doubt about the place.

        Raises:
            ConfigError: the answers cannot be read.
        """
        known = self._answer(place)
        return known.startswith((_DOUBTFUL, _NEVER)) and known.endswith(f":{_digest(content())}")

    def has_doubts(self) -> bool:
        """Return whether there is a doubt about any place."""
        return any(known.startswith((_DOUBTFUL, _NEVER)) for known in self._known().values())

    def doubt(self, place: str, content: bytes) -> None:
        """Note that this content of a place may come from others.

        Raises:
            ConfigError: it could not be saved.
        """
        self._note(place, _DOUBTFUL + _digest(content))

    def remember(self, place: str, content: bytes, *, agreed: bool = True) -> None:
        """The user's answer to this content; what was said to other content of the place counts no longer.

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
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{self._path}: {error}. Delete it to be asked again.") from error


def _key(place: str) -> str:
    """Return a place as JSON can hold it, one of its own for each path that is not UTF-8."""
    return place.encode("utf-8", "backslashreplace").decode("utf-8")


def tool_sources(root: Path) -> dict[str, bytes]:
    """Return the Python files of `.agent/tools` and of its subfolders by their path from the root. What is no
    small regular file is left out, since a repository must not be able to keep the program from starting; so is
    a folder that is a link."""
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
