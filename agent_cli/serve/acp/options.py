"""The user's options in a session, in the protocol's format: mode, model and effort."""

from collections.abc import Sequence
from typing import Any, get_args

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.operations import ChangeSettings

from ..jsonrpc.messages import INVALID_PARAMS, RpcError

_MODES: dict[Mode, tuple[str, str]] = {
    "plan": ("Plan", "Reads only."),
    "ask": ("Ask", "Asks before edits and commands."),
    "auto-edit": ("Auto-edit", "Edits files of the workspace without asking; commands run in the sandbox."),
    "yolo": ("Yolo", "Asks for next to nothing."),
}
DEFAULT_EFFORT = "default"
"""Value for the provider's default effort."""

assert tuple(_MODES) == get_args(Mode)


def choices(now: Snapshot, models: Sequence[str], efforts: Sequence[str]) -> dict[str, Any]:
    """Return modes and options. The mode is in both: clients that support options ignore modes."""
    modes = [{"id": mode, "name": name, "description": about} for mode, (name, about) in _MODES.items()]
    mode = _option("mode", "Mode", "mode", now.mode, [(each, *_MODES[each]) for each in _MODES])
    known = dict.fromkeys((now.model, *models))
    model = _option("model", "Model", "model", now.model, [(name, name, "") for name in known])
    levels = dict.fromkeys((DEFAULT_EFFORT, *efforts, *((now.effort,) if now.effort else ())))
    named = [(level, level.capitalize(), "") for level in levels]
    effort = _option("effort", "Reasoning effort", "thought_level", now.effort or DEFAULT_EFFORT, named)
    return {
        "modes": {"currentModeId": now.mode, "availableModes": modes},
        "configOptions": [mode, model, effort],
    }


def _option(
    identifier: str, name: str, category: str, value: str, values: Sequence[tuple[str, str, str]]
) -> dict[str, Any]:
    listed = [
        {"value": each, "name": label, **({"description": about} if about else {})}
        for each, label, about in values
    ]
    return {
        "id": identifier,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": value,
        "options": listed,
    }


def change(option: str, value: str, efforts: Sequence[str]) -> ChangeSettings:
    """Return the operation that sets an option.

    Raises:
        RpcError: there is no such option, mode or effort.
    """
    match option:
        case "mode":
            mode = next((each for each in _MODES if each == value), None)
            if mode is None:
                raise RpcError(INVALID_PARAMS, f"There is no mode {value!r}: {', '.join(_MODES)}.")
            return ChangeSettings(mode=mode)
        case "model":
            return ChangeSettings(model=value)
        case "effort":
            if value not in (DEFAULT_EFFORT, *efforts):
                raise RpcError(INVALID_PARAMS, f"There is no effort {value!r}: {', '.join(efforts)}.")
            return ChangeSettings(effort="" if value == DEFAULT_EFFORT else value)
        case _:
            raise RpcError(INVALID_PARAMS, f"There is no option {option!r}: mode, model, effort.")
