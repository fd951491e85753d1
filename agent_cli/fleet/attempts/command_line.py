"""Convert a task to the command line and the environment of `agent run`."""

import json
import os
import sys
from pathlib import Path

from agent_cli.sandbox.profile.environment import child_env

from ..job import Job
from ..task import Task
from ..trees.attempt_tree import AttemptTree

TRACE_FILE = "trace.jsonl"
_STOP_AFTER_S = 30.0
"""Seconds beyond the agent's own limit before it is stopped from outside."""


def agent_command(job: Job, inside: Path, schema_file: Path) -> list[str]:
    """Return the command line of the agent, which reads the prompt from standard input. A trace is written beside
    the schema."""
    task = job.task
    if task.command:
        return ["bash", "-c", task.command]
    # -P: never import modules from the tree
    words = [sys.executable, "-P", "-m", "agent_cli", "run", "-", "-C", str(inside), "--quiet"]
    words += ["--output-format", "stream-json"]
    given: dict[str, object] = {
        "--model": task.model, "--effort": task.effort, "--mode": task.mode or "auto-edit",
        "--sandbox": task.sandbox, "--tools": task.tools,
        "--max-cost": task.max_cost if job.max_cost is None else job.max_cost,
        "--max-turns": task.max_turns, "--timeout": task.timeout_s,
        "--output-schema": str(schema_file) if task.schema is not None else "",
        "--trace": str(schema_file.with_name(TRACE_FILE)) if job.traced else "",
    }  # fmt: skip
    words += [part for name, value in given.items() if value not in ("", None) for part in (name, str(value))]
    return [*words, *(word for setting in settings_of(task) for word in ("--set", setting))]


def settings_of(task: Task) -> list[str]:
    """Return the `config` of a task as values of `--set`."""
    return [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in task.config.items()
    ]


def time_limit_s(task: Task) -> float | None:
    """Return the seconds after which the agent is stopped from outside; None for no limit."""
    return None if task.timeout_s is None else task.timeout_s + _STOP_AFTER_S


def agent_environment(job: Job, tree: AttemptTree, state: Path, temporary: Path) -> dict[str, str]:
    """Return the environment of the agent: ours, with separate folders for state and temporary files. An agent
    killed with all its helpers cannot remove its files itself."""
    own = {"AGENT_STATE_DIR": str(state), "TMPDIR": str(temporary)}
    return {**os.environ, **job.task.env, **tree.variables, **own}


def command_environment(job: Job, tree: AttemptTree) -> dict[str, str]:
    """Return the environment of `setup` and `verify`: ours without keys, except those that the task names."""
    named = {name: os.environ[name] for name in job.task.pass_env if name in os.environ}
    return {**child_env(os.environ), **named, **job.task.env, **tree.variables}
