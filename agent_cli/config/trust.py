"""Which project configuration files the user has agreed to, by folder and content."""

import hashlib
import os
from pathlib import Path

import msgspec

from .layer import ConfigError, Layer
from .load import PROJECT_FILE
from .yaml_file import parse


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
        known = {**self._known(), str(file): _digest(_read(file))}
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


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
