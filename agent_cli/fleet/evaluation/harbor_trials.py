"""Convert attempts to the trials of a Harbor job. Pure."""

import uuid
from datetime import UTC, datetime
from typing import Any

from ..attempt import AttemptResult, Outcome
from ..task import Task

_REWARDS: dict[Outcome, float] = {
    "solved": 1.0, "unsolved": 0.0, "limit": 0.0, "stuck": 0.0, "tampered": 0.0, "refused": 0.0,
}  # fmt: skip
_EXCEPTIONS: dict[Outcome, str] = {
    "limit": "AgentTimeoutError",
    "refused": "AgentSafetyRefusalError",
    "auth": "AgentAuthenticationError",
    "provider": "ApiError",
    "setup": "AgentSetupTimeoutError",
    "crash": "NonZeroAgentExitCodeError",
    "lost": "RuntimeRequestError",
    "verify_error": "RewardFileNotFoundError",
    "cancelled": "CancelledError",
}
"""Exception names that Harbor's table of failures (`error_policy.py`) classifies like our outcomes."""


def reward_of(result: AttemptResult) -> float | None:
    """Return the reward of an attempt; None if it is unknown whether the task was solved."""
    return _REWARDS.get(result.outcome)


def trial_name(result: AttemptResult) -> str:
    """Return the folder name of a trial."""
    return f"{result.id}__{result.attempt}"


def trial(task: Task, result: AttemptResult, uri: str) -> dict[str, Any]:
    """Return the `result.json` of an attempt; `uri` identifies its folder. Unknown numbers are null."""
    folder = str(task.meta.get("folder") or task.repo)
    reward, used = reward_of(result), result.usage
    provider, _, model = result.model.rpartition("/")
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, uri)),
        "task_name": str(task.meta.get("name") or task.id),
        "trial_name": trial_name(result),
        "trial_uri": uri,
        "task_id": {"path": folder},
        "source": None,
        "task_checksum": str(task.meta.get("checksum") or result.spec_hash),
        "config": {"task": {"path": folder}, "trial_name": trial_name(result)},
        "agent_info": {
            "name": "agent-cli",
            "version": result.agent_version or "unknown",
            "model_info": {"name": model, "provider": provider or None} if model else None,
        },
        "agent_result": {
            "n_input_tokens": used.sent,
            "n_cache_tokens": used.cache_read,
            "n_output_tokens": used.output,
            "cost_usd": result.cost_usd,
            "metadata": {"outcome": result.outcome, "stop_reason": result.stop_reason, "turns": result.turns},
        },
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
        "exception_info": _exception(result),
        "started_at": _moment(result.started),
        "finished_at": _moment(result.finished),
    }


def _exception(result: AttemptResult) -> dict[str, Any] | None:
    name = _EXCEPTIONS.get(result.outcome)
    if name is None:
        return None
    message = f"{result.error.kind}: {result.error.message}" if result.error else result.stop_reason
    return {
        "exception_type": name,
        "exception_message": message,
        "exception_traceback": "",
        "occurred_at": _moment(result.finished) or _moment(0.001),
    }


def _moment(time: float) -> str | None:
    return datetime.fromtimestamp(time, UTC).isoformat() if time else None
