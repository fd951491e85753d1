"""Restrict what a project's own configuration file may set.

The file comes with the repository, so its author is whoever wrote the repository. The user has seen and approved
it, but approving "tighten my permissions" must not mean approving "send my keys elsewhere" or "run this". So
allowed settings are listed; everything else, including future keys, is ignored and reported.
"""

from collections.abc import Callable
from typing import Any, get_args

import msgspec

from agent_cli.protocol.actions import Mode

from .layer import Layer
from .schema import Config

_PRESETS = ("core", "read-only", "full")
_SANDBOXES = ("read-only", "workspace-write", "off")


class RestrictedConfig(msgspec.Struct, frozen=True):
    """The effective part of a project's file."""

    layer: Layer
    ignored: tuple[str, ...]
    """The ignored dotted keys."""


def restrict_project_layer(project: Layer, before: Config) -> RestrictedConfig:
    """Return a project's file without settings that could harm the user; `before` is the configuration without it.

    Ignored are: allow rules; a mode or sandbox looser than before; limits higher than before; tools not offered
    before; `providers` (a base URL, key variable or header would send the user's keys and code to someone else); a
    model that is a recording, an address, or from another provider than the user's own choice; `tools.shell.env`
    (LD_PRELOAD, PATH or GIT_EXTERNAL_DIFF turn a harmless command into any other); `sessions` (a folder of
    prepared sessions brings its own grants and system prompt, and a short retention deletes the user's);
    `context.instructions` that lead out of their folder; `hooks` and `mcp_servers` (they start programs).
    """
    ignored: list[str] = []
    values = _kept(project.values, before, "", ignored)
    return RestrictedConfig(Layer(project.name, values, project.lines), tuple(ignored))


def _kept(values: dict[str, Any], before: Any, prefix: str, ignored: list[str]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        current = getattr(before, key)
        if name in _MAY_SET and _MAY_SET[name](value, current):
            kept[key] = value
        elif name not in _MAY_SET and isinstance(value, dict) and isinstance(current, msgspec.Struct):
            kept[key] = _kept(value, current, f"{name}.", ignored)
        else:
            ignored.append(name)
    return kept


def _always(value: Any, before: Any) -> bool:
    return True


def _no_later_in(steps: tuple[str, ...]) -> Callable[[Any, Any], bool]:
    return lambda value, before: steps.index(value) <= steps.index(before)


def _no_higher(value: Any, before: Any) -> bool:
    return before is None or (value is not None and value <= before)


def _same_provider(value: Any, before: Any) -> bool:
    if value is None or "://" in value or value.startswith("replay/"):
        return False
    return before is None or value.partition("/")[0] == before.partition("/")[0]


def _same_providers(value: Any, before: Any) -> bool:
    return all(any(_same_provider(name, known) for known in before) for name in value)


def _fewer(value: Any, before: Any) -> bool:
    """Return True if a tool selection offers nothing that was not offered before: plain names from the earlier
    selection, or only exclusions if everything was offered. The content of presets is not known here."""
    if not value or any(name in _PRESETS for name in (*value, *before)):
        return False
    without = {name for name in before if name.startswith("-")}
    offered = set(before) - without
    if all(name.startswith("-") for name in value):
        return not before
    plain = not any(name.startswith("-") for name in value)
    return plain and (not offered or set(value) <= offered) and not {f"-{name}" for name in value} & without


def _plain_names(value: Any, before: Any) -> bool:
    return all("/" not in name and name not in ("", ".", "..") for name in value)


_MAY_SET: dict[str, Callable[[Any, Any], bool]] = {
    "model": _same_provider,
    "small_model": _same_provider,
    "fallback_models": _same_providers,
    "effort": _always,
    "mode": _no_later_in(get_args(Mode)),
    "sandbox": _no_later_in(_SANDBOXES),
    "permissions.ask": _always,
    "permissions.deny": _always,
    "limits.turns": _no_higher,
    "limits.cost_usd": _no_higher,
    "limits.time_s": _no_higher,
    "context.compact_at": _always,
    "context.instructions": _plain_names,
    "tools.enabled": _fewer,
    "tools.shell.timeout_s": _always,
    "rules": _always,
    "ui.theme": _always,
    "ui.plain": _always,
    "ui.markdown": _always,
    "ui.show_reasoning": _always,
    "ui.vi_mode": _always,
    "ui.notify": _always,
}
