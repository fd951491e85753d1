"""Configuration in layers, later ones take precedence: built-in, user file, trusted project file, `AGENT_*`,
`--config`, flags. Every value remembers its origin. An unreadable file, an unknown key or a wrong type is an
error with its place; it never means "no configuration"."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .call_rule_schema import ToolRule
from .layer import ConfigError, Layer, check, nest
from .project_restrictions import restrict_project_layer
from .schema import Config
from .yaml_file import read_file, read_named, read_value, settle_paths

_EFFECTS = ("allow", "ask", "deny")
ADDING = (
    *(f"permissions.{effect}" for effect in _EFFECTS),
    *(f"permissions.examples.{effect}" for effect in _EFFECTS),
    "rules",
)
"""Lists that are concatenated over the layers instead of replaced."""
PROJECT_FILE = Path(".agent") / "config.yaml"


class Loaded(msgspec.Struct, frozen=True):
    """The effective configuration and its provenance."""

    config: Config
    layers: tuple[Layer, ...]
    ignored: tuple[tuple[str, str], ...] = ()
    """Key and place of project settings that were ignored because a project must not set them."""

    def place(self, key: str) -> str:
        """Return the origin of a dotted key's effective value; all origins of a concatenated list."""
        places = [layer.place(key) for layer in self.layers if _has(layer.values, key)]
        if not places:
            return "built-in default"
        return ", ".join(places) if key in ADDING else places[-1]

    def tool_rules(self) -> list[tuple[ToolRule, str]]:
        """Return the enforced rules, each with its place."""
        found = []
        for layer in self.layers:
            for index, rule in enumerate(layer.values.get("rules", ())):
                if isinstance(rule, dict):
                    found.append((msgspec.convert(rule, ToolRule), layer.place(f"rules.{index}")))
        return found

    def rules(self, effect: str) -> list[tuple[str, str]]:
        """Return the permission rules of an effect (`allow`, `ask`, `deny`), each with its place."""
        return self._texts(("permissions", effect))

    def examples(self, effect: str) -> list[tuple[str, str]]:
        """Return the examples of an effect, each with its place."""
        return self._texts(("permissions", "examples", effect))

    def _texts(self, path: tuple[str, ...]) -> list[tuple[str, str]]:
        """Return the items of a list in all layers, each with its place."""
        found = []
        for layer in self.layers:
            value: Any = layer.values
            for key in path:
                value = value.get(key, {})
            found += [(text, layer.place(".".join((*path, str(index))))) for index, text in enumerate(value)]
        return found


def load(
    user: Path | None,
    *,
    project: Layer | None = None,
    environment: Mapping[str, str] = os.environ,
    explicit: Path | None = None,
    flags: Sequence[Layer] = (),
) -> Loaded:
    """Merge all layers.

    Raises:
        ConfigError: a layer is invalid, or a named file is missing.
    """
    layers: list[Layer] = []
    ignored: tuple[tuple[str, str], ...] = ()
    if user is not None and _is_there(user):
        layers.append(read_file(user))
    elif user is not None and user.parent.exists() and not user.parent.is_dir():
        raise ConfigError(f"{user.parent} is not a folder; set AGENT_CONFIG_DIR to the folder with config.yaml")
    if project is not None:
        kept = restrict_project_layer(project, _together(layers))
        ignored = tuple((key, project.place(key)) for key in kept.ignored)
        layers.append(kept.layer)
    layers += _from_environment(environment)
    named = explicit or (Path(environment["AGENT_CONFIG"]) if environment.get("AGENT_CONFIG") else None)
    if named is not None:
        if not _is_there(named):
            source = "--config" if explicit else "AGENT_CONFIG"
            raise ConfigError(f"{named}: No such file or directory; check {source}, which names it")
        layers.append(read_named(named))
    return with_flags(Loaded(Config(), tuple(layers), ignored), flags)


def with_flags(loaded: Loaded, flags: Sequence[Layer]) -> Loaded:
    """Merge the layers that were loaded, as they were read, and further ones of a command line.

    Raises:
        ConfigError: a layer is invalid.
    """
    for flag in flags:
        check(flag)
        settle_paths(flag, Path.cwd())
    layers = (*loaded.layers, *flags)
    return Loaded(_together(layers), layers, loaded.ignored)


def assignment(text: str) -> Layer:
    """Return a layer from `--set key.path=value`; the value is parsed as YAML.

    Raises:
        ConfigError: no `=`, or a value that is not YAML.
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"--set {text}: write --set key.path=value")
    try:
        return nested(f"--set {key}", key, read_value(value))
    except ValueError as error:
        raise ConfigError(f"--set {text}: the value is not valid YAML: {error}") from error


def nested(name: str, key: str, value: Any) -> Layer:
    """Return a layer that sets one dotted key."""
    return Layer(name, nest(key.split("."), value))


def _together(layers: Iterable[Layer]) -> Config:
    values: dict[str, Any] = {}
    for layer in layers:
        _merge(values, layer.values, "")
    return msgspec.convert(values, Config, strict=False)


def _is_there(path: Path) -> bool:
    """Return True if a file exists, even if it is not readable."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return True


def _from_environment(environment: Mapping[str, str]) -> list[Layer]:
    layers = []
    for variable, key in (("AGENT_MODEL", "model"), ("AGENT_MODE", "mode")):
        if value := environment.get(variable):
            layer = Layer(variable, {key: value})
            check(layer)
            layers.append(layer)
    return layers


def _merge(base: dict[str, Any], more: Mapping[str, Any], prefix: str) -> None:
    for key, value in more.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value, f"{name}.")
        elif name in ADDING and key in base:
            base[key] = [*base[key], *(item for item in value if item not in base[key])]
        else:
            base[key] = _copy(value)


def _copy(value: Any) -> Any:
    return {k: _copy(v) for k, v in value.items()} if isinstance(value, dict) else value


def _has(values: Any, key: str) -> bool:
    """Return True if a dotted key is set. A name may itself contain dots, as those of models do."""
    if not isinstance(values, dict):
        return False
    return any(
        key == name or (key.startswith(f"{name}.") and _has(value, key[len(name) + 1 :]))
        for name, value in values.items()
    )
