"""The sessions of a REPL: open each, and move from one to the next without leaving it."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec

from agent_cli.bootstrap.compose import open_session
from agent_cli.bootstrap.options import NO_DIRECTORY, ParsedOptions, UsageError
from agent_cli.bootstrap.session_builder import INTERACTIVE, OpenSession
from agent_cli.bootstrap.setup import CARRIED, Setup, session_setup, with_values
from agent_cli.config.layer import ConfigError
from agent_cli.model.routing import MissingKey, NoModel, preload
from agent_cli.model.types.base import ModelError
from agent_cli.protocol.sanitize import clean
from agent_cli.store.session_file import StoreError
from agent_cli.ui.commands.api import ExitReason, FirstInput
from agent_cli.ui.early_signals import EARLY
from agent_cli.ui.repl.first_paint import FirstPaint
from agent_cli.ui.repl.start import let_go, run_repl
from agent_cli.ui.signals import ENDING, signal_handlers
from agent_cli.ui.text.theme import NONE
from agent_cli.ui.text.theme import choose as choose_theme
from agent_cli.workspace.git.repository import current_branch

from .services.extensions.loaded_line import loaded_line
from .services.repl_services import SessionHost

_PRELOAD_AFTER_S = 0.2
"""Seconds after the first paint before the imports for the first request start in a thread."""
_LEARN_AFTER_S = 1.0
"""Seconds before MCP servers whose tools are unknown are connected, after the prompt is shown."""
_SETTINGS = ("model", "mode", "effort")
_PRUNE_AFTER_S = 5.0
"""Seconds before old sessions are pruned, at most once a day, when nobody waits for it."""


T = TypeVar("T")


class Leaving:
    """Ends the program while no line editor runs: by a signal, or by keys typed while a session is opened."""

    def __init__(self) -> None:
        self.reason: ExitReason | None = None
        """The first reason to leave."""
        self._work: asyncio.Task[Any] | None = None

    def leave(self, reason: ExitReason) -> None:
        """Cancel the current work, if possible, and end the program."""
        self.reason = self.reason or reason
        if self._work is not None:
            self._work.cancel()

    def watch(self, painted: FirstPaint, *, is_start: bool) -> None:
        """Watch for keys that end the program while a session is opened; at its start also a single Ctrl-C,
        because no prompt is shown yet."""
        interrupted = ExitReason.by_signal(signal.SIGINT)
        painted.watch(
            asyncio.get_running_loop(),
            partial(self.leave, ExitReason("quit")),
            partial(self.leave, interrupted) if is_start else lambda: None,
        )

    async def unless(self, work: Coroutine[Any, Any, T]) -> T | ExitReason:
        """Return the result of some work, or the reason why it was cancelled."""
        if self.reason is not None:
            work.close()
            return self.reason
        self._work = task = asyncio.ensure_future(work)
        try:
            return await task
        except asyncio.CancelledError:
            if self.reason is None:
                raise
            return self.reason
        finally:
            self._work = None


async def _run_one_by_one(
    setup: Setup, first_input: FirstInput, painted: FirstPaint, outside: Leaving
) -> ExitReason:
    """Run one session after another, until the user quits. If one cannot be opened, the previous one is opened
    again, with the configuration that it had."""
    begin: Callable[[], Setup] | None = None
    before_it, back = setup, None
    in_repl: dict[str, str] = {}
    """Settings chosen in this REPL after its start."""
    saved = refused = ""
    """The session before, and why the next one could not be opened."""
    while True:
        try:
            setup = begin() if begin is not None else setup
            outside.watch(painted, is_start=back is None)
            opened = await outside.unless(open_session(setup, INTERACTIVE))
        except (StoreError, UsageError, ConfigError, NoModel, MissingKey, ModelError, FileNotFoundError) as error:
            why = NO_DIRECTORY if isinstance(error, FileNotFoundError) else str(error)
            if back is None:
                _say(refused if refused != why else "")
                _say(f"the session is saved; `agent resume {saved}` continues it" if saved else "")
                raise
            refused = why
            begin, back = partial(before_it.with_options, back), None
            continue
        if isinstance(opened, ExitReason):
            return opened
        first_input = msgspec.structs.replace(first_input, note=f"agent: {refused}" if refused else "")
        refused = ""
        before_it, before = setup, _in_force(opened)
        leaving = await _one_session(setup, opened, first_input, painted, outside)
        if leaving.is_final:
            return leaving
        first_input = FirstInput(commands=leaving.commands, draft=leaving.draft)
        painted = FirstPaint(setup.config.ui, current_branch(setup.root), painted.keyboard)
        painted.say("")  # between the command and what it opens
        painted.take()
        now = _in_force(opened)
        in_repl |= {key: value for key, value in now.items() if value != before[key]}
        saved = _saved_id(opened)
        del opened
        let_go(is_first=back is None)
        back = _naming(setup.chosen, saved, now)
        chosen = _naming(setup.chosen, leaving.session_id, _carried(leaving, now, in_repl))
        if leaving.add_dir:
            chosen = with_values(chosen, add_dir=[*chosen.several("add_dir"), leaving.add_dir])
        if leaving.kind == "fork":
            chosen = with_values(chosen, fork=True, fork_at=leaving.turn_id or None)
        begin = partial(session_setup, chosen)


def _say(text: str) -> None:
    if text:
        print(f"agent: {text}", file=sys.stderr)


def _in_force(opened: OpenSession) -> dict[str, str]:
    """Return the current settings of a session."""
    now = opened.agent.snapshot()
    return {"model": now.model, "mode": now.mode, "effort": now.effort}


def _carried(leaving: ExitReason, now: dict[str, str], in_repl: dict[str, str]) -> dict[str, str]:
    """Return the settings for the next session. A new session, a copy and the same session keep those in force; a
    saved one has its own, except for choices made in this REPL; `yolo` must be chosen again."""
    if leaving.kind != "resume" or leaving.add_dir:
        return now
    return {key: value for key, value in in_repl.items() if value != "yolo"}


def _naming(chosen: ParsedOptions, session_id: str, settings: dict[str, str]) -> ParsedOptions:
    """Return the same command line for a saved or a new session with other settings: its own settings were for its
    first session."""
    sets = [each for each in chosen.several("set") if each.partition("=")[0].strip() not in _SETTINGS]
    named = {key: settings.get(key) or None for key in _SETTINGS}
    return with_values(
        chosen, resume=session_id or None, fork=False, fork_at=None, set=sets, **named,
        **{"continue": False, CARRIED: _SETTINGS},
    )  # fmt: skip


def _saved_id(opened: OpenSession) -> str:
    now = opened.agent.snapshot()
    return now.session_id if now.session_path and now.turns else ""


async def _one_session(
    setup: Setup, opened: OpenSession, first_input: FirstInput, painted: FirstPaint, outside: Leaving
) -> ExitReason:
    """Run the REPL on a session until the user leaves it, shut the engine down, and print its last messages."""
    painted.show(opened.agent.snapshot())
    for line in _opening_lines(setup, opened):
        painted.say(line)
    loop = asyncio.get_running_loop()
    model = opened.agent.snapshot().model
    loading = threading.Thread(target=preload, args=(model, setup.config, setup.environment()), daemon=True)
    loop.call_later(_PRELOAD_AFTER_S, loading.start)
    loop.call_later(_PRUNE_AFTER_S, threading.Thread(target=_prune, args=(setup,), daemon=True).start)
    try:
        async with opened.running():
            if opened.servers is not None:
                opened.servers.learn_in_background(_LEARN_AFTER_S)
            return await _left(setup, opened, first_input, painted, outside)
    finally:
        painted.give_way()
        for note in opened.exit_messages:
            _say(clean(note))


async def _left(
    setup: Setup, opened: OpenSession, first_input: FirstInput, painted: FirstPaint, outside: Leaving
) -> ExitReason:
    """Run the REPL until the user leaves it."""
    repl = run_repl(
        opened.agent,
        SessionHost(setup, opened),
        setup.config.ui,
        history_file=setup.state / "history",
        first_input=first_input,
        painted=painted,
    )
    leaving = await outside.unless(repl)
    if outside.reason is not None:
        opened.agent.stop("interrupted" if leaving.kind == "interrupted" else "terminated")
    return leaving


def _opening_lines(setup: Setup, opened: OpenSession) -> Iterator[str]:
    """Yield the lines to print before the first prompt: problems, and loaded files."""
    yield from (f"agent: {note}" for note in (*opened.notes, *_due(setup)))
    theme = choose_theme(setup.config.ui) if sys.stderr.isatty() else NONE
    if unwritable := opened.permissions.unwritable():
        yield theme.paint("muted", f"Nothing here can be changed: {clean(unwritable)}")
    if loaded := loaded_line(setup, opened):
        yield theme.paint("muted", loaded)


def _due(setup: Setup) -> Iterator[str]:
    """Yield a notice about old sessions that will be pruned soon."""
    if (setup.state / "prune.json").exists():
        from agent_cli.store.prune_notices import due_notice

        if notice := due_notice(setup.state):
            yield notice


def _prune(setup: Setup) -> None:
    from .commands.sessions.pruning import prune_quietly

    prune_quietly(setup)


def run_sessions(setup: Setup, first_input: FirstInput, painted: FirstPaint) -> int:
    """Run sessions in an event loop until the user quits, and return the exit code; `painted` is the view already
    on the screen. Deferred signals are handled now.

    Raises:
        StoreError, UsageError, NoModel, MissingKey, ModelError: the first session cannot be opened.
    """

    async def sessions() -> int:
        outside = Leaving()
        with signal_handlers({each: partial(outside.leave, ExitReason.by_signal(each)) for each in ENDING}):
            if EARLY.number:
                outside.leave(ExitReason.by_signal(EARLY.number))
            leaving = await _run_one_by_one(setup, first_input, painted, outside)
            return (outside.reason or leaving).exit_code

    return asyncio.run(sessions())
