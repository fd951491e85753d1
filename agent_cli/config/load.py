"""Configuration in layers, later wins: built-in, user file, trusted project file, `AGENT_*`, `--config`,
flags. Every value remembers where it came from. A file that cannot be read, an unknown key or a wrong type
is an error with its place; it never means "no configuration"."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .schema import Config

ADDING = ("permissions.allow", "permissions.ask", "permissions.deny", "rules")
"""Lists that add up over the layers instead of replacing one another."""
PROJECT_FILE = Path(".agent") / "config.yaml"


class ConfigError(Exception):
    """The configuration is wrong; the text gives file, line and what to write instead."""


class Layer(msgspec.Struct, frozen=True):
    """One source of values."""

    name: str
    """A file's path, or the flag or variable."""
    values: dict[str, Any]
    lines: dict[str, int] = {}
    """Dotted key → line, for files."""

    def place(self, key: str) -> str:
        """Where a key was set, such as `config.yaml:12`."""
        while key:
            if key in self.lines:
                return f"{self.name}:{self.lines[key]}"
            key = key.rpartition(".")[0]
        return self.name


class Loaded(msgspec.Struct, frozen=True):
    """The effective configuration and its provenance."""

    config: Config
    layers: tuple[Layer, ...]

    def place(self, key: str) -> str:
        """Where the effective value of a dotted key comes from."""
        for layer in reversed(self.layers):
            if _has(layer.values, key):
                return layer.place(key)
        return "built-in default"

    def rules(self, effect: str) -> list[tuple[str, str]]:
        """The permission rules of an effect (`allow`, `ask`, `deny`), each with its place."""
        found = []
        for layer in self.layers:
            for index, rule in enumerate(layer.values.get("permissions", {}).get(effect, ())):
                found.append((rule, layer.place(f"permissions.{effect}.{index}")))
        return found


def read_file(path: Path) -> Layer:
    """A YAML file as a layer, checked against the schema.

    Raises:
        ConfigError: not readable, not YAML, not a mapping, unknown key or wrong type.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=loader)
        values = yaml.load(text, Loader=loader)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise ConfigError(f"{where}: not valid YAML: {getattr(error, 'problem', error)}") from error
    if values is None:
        return Layer(str(path), {})
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a configuration file is a mapping of keys to values")
    layer = Layer(str(path), values, dict(_lines(node, "")))
    check(layer)
    _settle_paths(layer, path.parent)
    return layer


def load(
    user: Path,
    *,
    project: Layer | None = None,
    environment: Mapping[str, str] = os.environ,
    explicit: Path | None = None,
    flags: Sequence[Layer] = (),
) -> Loaded:
    """All layers put together.

    Raises:
        ConfigError: any of them is wrong, or a named file is missing.
    """
    layers: list[Layer] = []
    if user.exists():
        layers.append(read_file(user))
    if project is not None:
        layers.append(tightened(project, layers))
    layers += _from_environment(environment)
    named = explicit or (Path(environment["AGENT_CONFIG"]) if environment.get("AGENT_CONFIG") else None)
    if named is not None:
        layers.append(read_file(named))
    for flag in flags:
        check(flag)
        layers.append(flag)
    values: dict[str, Any] = {}
    for layer in layers:
        _merge(values, layer.values, "")
    return Loaded(msgspec.convert(values, Config, strict=False), tuple(layers))


def tightened(project: Layer, earlier: Sequence[Layer]) -> Layer:
    """A project's file without what would loosen permissions: its allow rules, and a mode or sandbox
    weaker than the one in force before it."""
    values = dict(project.values)
    if "permissions" in values:
        values["permissions"] = {k: v for k, v in values["permissions"].items() if k != "allow"}
    order = {"mode": ("plan", "ask", "auto-edit", "yolo"), "sandbox": ("read-only", "workspace-write", "off")}
    for key, steps in order.items():
        before = next((layer.values[key] for layer in reversed(earlier) if key in layer.values), None)
        before = before or msgspec.structs.asdict(Config())[key]
        if key in values and steps.index(values[key]) > steps.index(before):
            del values[key]
    return Layer(project.name, values, project.lines)


def assignment(text: str) -> Layer:
    """A layer from `--set key.path=value`; the value is read as YAML.

    Raises:
        ConfigError: no `=`, or a value that is not YAML.
    """
    import yaml

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text}: write --set key.path=value")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {text}: the value is not valid YAML") from error
    return nested(f"--set {key.strip()}", key.strip(), parsed)


def nested(name: str, key: str, value: Any) -> Layer:
    """A layer that sets one dotted key."""
    values: Any = value
    for part in reversed(key.split(".")):
        values = {part: values}
    return Layer(name, values)


def check(layer: Layer) -> None:
    """Hold a layer against the schema.

    Raises:
        ConfigError: unknown key or wrong type, with its place and the nearest valid key.
    """
    try:
        msgspec.convert(layer.values, Config, strict=not layer.name.startswith("--"))
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(layer, str(error))) from None


def _explain(layer: Layer, message: str) -> str:
    text, _, where = message.partition(" - at `$")
    key = re.sub(r"\[(\d+)\]", r".\1", where.rstrip("`")).lstrip(".").replace("[...]", "")
    unknown = re.search(r"unknown field `([^`]*)`", text)
    if unknown is None:
        return f"{layer.place(key)}: {key or 'the file'}: {text}"
    name = f"{key}.{unknown.group(1)}".lstrip(".")
    import difflib

    known = _known_keys(key)
    near = difflib.get_close_matches(unknown.group(1), known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known keys here: {', '.join(known)}"
    return f"{layer.place(name)}: unknown key `{name}`; {hint}"


def _known_keys(parent: str) -> list[str]:
    kind: Any = Config
    for part in filter(None, parent.split(".")):
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        kind = fields.get(part, kind)
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            arguments = getattr(kind, "__args__", ())
            kind = next((a for a in arguments if isinstance(a, type) and issubclass(a, msgspec.Struct)), Config)
    return [field.name for field in msgspec.structs.fields(kind)]


def _lines(node: Any, prefix: str) -> "list[tuple[str, int]]":
    found: list[tuple[str, int]] = []
    if isinstance(node.value, list):
        for index, item in enumerate(node.value):
            if isinstance(item, tuple):
                key = f"{prefix}{item[0].value}"
                found.append((key, item[0].start_mark.line + 1))
                found += _lines(item[1], f"{key}.")
            else:
                found.append((f"{prefix}{index}", item.start_mark.line + 1))
                found += _lines(item, f"{prefix}{index}.")
    return found


def _settle_paths(layer: Layer, folder: Path) -> None:
    """`sessions.dir` is relative to the file that says so."""
    sessions = layer.values.get("sessions")
    if isinstance(sessions, dict) and isinstance(sessions.get("dir"), str):
        sessions["dir"] = str(folder.absolute() / Path(sessions["dir"]).expanduser())


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
    for part in key.split("."):
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True
