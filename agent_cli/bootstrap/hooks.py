"""The user's hooks for a session: read from configuration files, run by the hook engine."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent_cli.config.dirs import home_dir
from agent_cli.extensions.hook_files import FoundHooks, find_hooks, words_of
from agent_cli.fs.named_files import named_files, programs_inside
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.engine import HookEngine, HookSession
from agent_cli.redaction.env_names import is_secret
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.environment import child_env

from .setup import Setup


class HookFacts(msgspec.Struct, frozen=True):
    """Facts about a session that hooks receive."""

    session_id: str
    path: str
    mode: Callable[[], str]
    model: Callable[[], str]
    agent_id: str = ""
    """Id of a sub-agent; `session_id` is then that of the conversation."""
    agent_type: str = ""
    claude_transcript: Callable[[], str] | None = None


def found_hooks(setup: Setup) -> FoundHooks:
    """Return the hooks in configuration files; they are read once, until the configuration is read again."""
    return setup.once(_found)


def _found(setup: Setup) -> FoundHooks:
    from .plugins import hooks_of_plugins

    hooks, notes = hooks_of_plugins(setup)
    found = find_hooks(
        setup.config.hooks,
        own_source=lambda event: setup.loaded.place(f"hooks.{event}"),
        root=setup.workspace.root,
        home=home_dir(),
        trusts=setup.trust.knows,
        plugins=hooks,
        reads=setup.embedding.reads,
    )
    usable = (*setup.embedding.hooks, *found.usable)
    return msgspec.structs.replace(found, usable=usable, notes=(*notes, *found.notes))


def open_hooks(setup: Setup, facts: HookFacts, processes: ProcessRunner) -> HookEngine | None:
    """Return the hook engine of a session; None if no file defines a hook."""
    found = found_hooks(setup)
    if not found.usable and not found.notes:
        return None
    root = setup.workspace.root
    session = HookSession(
        facts.session_id, facts.path, root, _environment(), facts.mode, facts.model,
        agent_id=facts.agent_id, agent_type=facts.agent_type, claude_transcript=facts.claude_transcript,
    )  # fmt: skip
    return HookEngine(
        found.usable, session, processes, notes=found.notes, changed_file=_Pinned(found.usable, setup)
    )


class _Pinned:
    """Checks that the workspace files named by a hook, by a path or as programs of an activated environment, are
    unchanged since the session began: the agent may have written to them, and a hook is not sandboxed. Files of a
    plug-in must be those that the user approved."""

    def __init__(self, hooks: tuple[Hook, ...], setup: Setup) -> None:
        self._root = setup.workspace.root
        self._setup = setup
        self._search_path = os.environ.get("PATH", os.defpath)
        self._before = {hook: self._now(hook) for hook in hooks}

    def __call__(self, hook: Hook) -> str:
        """Return the changed file; empty if none has changed."""
        if hook.root:
            from .plugins import changed_plugin

            if changed := changed_plugin(self._setup, hook.root):
                return changed
        before, now = self._before[hook], self._now(hook)
        return next((name for name in {**before, **now} if before.get(name) != now.get(name)), "")

    def _now(self, hook: Hook) -> dict[str, str]:
        words = words_of(hook, self._root)
        folder = Path(hook.folder) if hook.folder else None
        return named_files(words, self._root, folder) | programs_inside(words, self._root, self._search_path)


def _environment() -> dict[str, str]:
    """Return the program's environment without keys and tokens."""
    return {name: value for name, value in child_env(os.environ).items() if not is_secret(name, value)}
