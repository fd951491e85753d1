"""Check before a batch starts what the agents of its attempts would refuse: model, settings, tools and the schema
of the answer. Otherwise every attempt would fail in the same way, each after its tree was created."""

import os
import re
from collections.abc import Mapping, Sequence

import msgspec

from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.setup import Embedding, Setup
from agent_cli.config.api_keys import keyed
from agent_cli.config.layer import ConfigError
from agent_cli.fleet.attempts.command_line import settings_of
from agent_cli.fleet.input.entries import InputError
from agent_cli.fleet.task import Task
from agent_cli.policy.rules.rule import RuleError

_MOST_NAMED = 20
_OPTION = re.compile(r"--(set [^:]*|\w+): ")
"""The origin that a message begins with: an option of the agent, not of the batch."""
_FIELDS = ("model", "effort", "mode", "sandbox", "tools")
"""Fields of a task that are options of the agent."""


class Refusal(msgspec.Struct, frozen=True):
    """Why an agent would not start."""

    field: str
    """The field of the task that is wrong, such as `model` or `config.limits.turns`."""
    why: str


def check_agents(tasks: Sequence[Task], places: Mapping[str, str], *, is_here: bool) -> None:
    """Check the options of the agent of each task.

    Args:
        tasks: frozen tasks.
        places: `FILE:LINE` of each task, by id.
        is_here: attempts run on this machine, with its configuration; workers of a cluster have their own.

    Raises:
        InputError: an agent would refuse its options; the text reports up to twenty tasks.
    """
    known: dict[bytes, Refusal | None] = {}
    wrong = []
    for task in tasks:
        key = msgspec.json.encode((task.config, task.schema, task.env, [getattr(task, name) for name in _FIELDS]))
        if key not in known:
            known[key] = refusal_of(task, is_here=is_here)
        if (refusal := known[key]) is not None:
            wrong.append(f"{places[task.id]}: `{refusal.field}`: {refusal.why}")
    if wrong:
        more = f"\nand {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        raise InputError("\n".join(wrong[:_MOST_NAMED]) + more)


def refusal_of(task: Task, *, is_here: bool) -> Refusal | None:
    """Return why the agent of a task would refuse its options, if it would. A missing key is no such reason: the
    attempts say so, and the same command continues once it is set."""
    if task.command:
        return None
    if task.schema is not None:
        from agent_cli.bootstrap.answers.answer_schema import AnswerSchema

        try:
            AnswerSchema(task.schema, "")
        except UsageError as error:
            return Refusal("schema", str(error).removeprefix(": "))
    if any(name.startswith("AGENT_") for name in task.env):
        return None  # the agent reads another configuration
    values = {name: value for name in _FIELDS if (value := getattr(task, name))}
    embedding = Embedding(reads=frozenset(("user",)) if is_here else frozenset())
    try:
        setup = Setup(ParsedOptions("run", {**values, "set": settings_of(task)}), embedding=embedding)
    except (ConfigError, RuleError, UsageError) as error:
        return _of_option(str(error))
    if not is_here:
        return None
    return _of_model(task, setup) or _of_tools(task, setup)


def _of_option(message: str) -> Refusal:
    found = _OPTION.match(message)
    if found is None:
        return Refusal("config", message)
    return Refusal(found[1].replace("set ", "config."), message[found.end() :])


def _of_model(task: Task, setup: Setup) -> Refusal | None:
    from agent_cli.model.routing import REPLAY, BadAddress, BadModelName, MissingKey, check_model

    name = task.model or setup.config.model or ""
    if not name or name.startswith(f"{REPLAY}/"):
        return None
    try:
        check_model(name, setup.config, keyed({**os.environ, **task.env}, setup.config_dir))
    except MissingKey:
        return None
    except (BadModelName, BadAddress, ConfigError) as error:
        return Refusal("model", str(error))
    return None


def _of_tools(task: Task, setup: Setup) -> Refusal | None:
    if not (task.tools or task.config):
        return None
    from agent_cli.bootstrap.compose import registry_of
    from agent_cli.tools.registry import without_late_groups

    try:
        registry_of(setup, without_late_groups(setup.config.tools.enabled)[0], is_answered=False)
    except UsageError as error:
        return Refusal("tools" if task.tools else "config", str(error))
    return None
