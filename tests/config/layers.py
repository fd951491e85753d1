"""Configuration files on disk, and what comes of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.config.layer import ConfigError, Layer
from agent_cli.config.load import Loaded, load
from agent_cli.config.project_restrictions import RestrictedConfig, restrict_project_layer
from agent_cli.config.schema import Config
from agent_cli.config.yaml_file import read_file


def written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def loaded(
    folder: Path,
    user: str = "",
    *,
    project: str | None = None,
    environment: dict[str, str] | None = None,
    explicit: str | None = None,
    flags: Sequence[Layer] = (),
) -> Loaded:
    """The files `user.yaml`, `project.yaml` and `named.yaml` of a folder, put together."""
    return load(
        written(folder / "user.yaml", user),
        project=None if project is None else read_file(written(folder / "project.yaml", project)),
        environment=environment or {},
        explicit=None if explicit is None else written(folder / "named.yaml", explicit),
        flags=flags,
    )


def refusal(folder: Path, text: str | bytes) -> str:
    """The error of a file, with its folder left out."""
    path = written(folder / "c.yaml", text)
    with pytest.raises(ConfigError) as raised:
        read_file(path)
    return str(raised.value).replace(f"{folder}/", "")


def from_project(values: dict[str, Any], user: dict[str, Any] | None = None) -> RestrictedConfig:
    """What is left of a project's values above those of the user."""
    return restrict_project_layer(Layer("project", values), msgspec.convert(user or {}, Config))
