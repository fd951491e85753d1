"""Which of the files that a project brings the user has agreed to, by place and content."""

import hashlib
import os
import stat
from pathlib import Path

import msgspec

from .layer import ConfigError, Layer
from .load import PROJECT_FILE
from .yaml_file import parse

TOOLS_FOLDER = Path(".agent") / "tools"
_MAX_TOOL_FILES = 50
_MAX_TOOL_BYTES = 1_000_000


class Trust:
    """Agreements kept in one file of the state directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def project_layer(self, root: Path) -> tuple[Layer | None, bool]:
        """The project's configuration when its folder is trusted with this very content; and whether there
        is one that is not.

        Raises:
            ConfigError: a trusted file is wrong, or one that is there cannot be read.
        """
        file = root / PROJECT_FILE
        if not file.is_file():
            return None, False
        data = _read(file)
        if self._known().get(str(file)) != _digest(data):
            return None, True
        return parse(data, file), False

    def accept(self, root: Path) -> None:
        """Trust the project's file as it is now.

        Raises:
            ConfigError: the file cannot be read, or the agreement could not be saved.
        """
        file = root / PROJECT_FILE
        self.remember(str(file), _read(file))

    def knows(self, place: str, content: bytes) -> bool:
        """Whether the user has agreed to this very content of a place.

        Raises:
            ConfigError: the agreements cannot be read.
        """
        return self._known().get(place) == _digest(content)

    def remember(self, place: str, content: bytes) -> None:
        """The user agrees to this content, and no longer to what the place held before.

        Raises:
            ConfigError: the agreement could not be saved.
        """
        known = {**self._known(), place: _digest(content)}
        draft = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(known)))
            os.chmod(draft, 0o600)
            draft.replace(self._path)
        except OSError as error:
            raise ConfigError(f"cannot write {self._path}: {error.strerror}") from error

    def _known(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{self._path}: {error}. Delete it to be asked again.") from error


def tool_sources(root: Path) -> dict[str, bytes]:
    """The Python files of `.agent/tools` by their path from the root. What is no small regular file is left out,
    since a repository must not be able to keep the program from starting."""
    files = sorted((root / TOOLS_FOLDER).glob("*.py"))
    found = {str(file.relative_to(root)): _small_file(file) for file in files[:_MAX_TOOL_FILES]}
    return {path: source for path, source in found.items() if source is not None}


def _small_file(file: Path) -> bytes | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            small = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_TOOL_BYTES
            return os.read(descriptor, _MAX_TOOL_BYTES) if small else None
        finally:
            os.close(descriptor)
    except OSError:
        return None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
