"""The sessions of a REPL: opening each, and moving from one to the next without leaving it."""

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator

from agent_cli.model.routing import MissingKey, NoModel, preload
from agent_cli.model.types.base import ModelError
from agent_cli.protocol.sanitize import clean
from agent_cli.protocol.stop_reason import EXIT_CODES
from agent_cli.store.session_file import StoreError
from agent_cli.ui.commands.api import NOTHING, ExitReason, FirstInput
from agent_cli.ui.repl.first_paint import FirstPaint
from agent_cli.ui.repl.start import run_repl
from agent_cli.ui.signals import signal_handlers
from agent_cli.ui.text.theme import NONE
from agent_cli.ui.text.theme import choose as choose_theme
from agent_cli.workspace.git.repository import current_branch

from .services.extensions.loaded_line import loaded_line
from .services.repl_services import SessionHost
from .setup.compose import open_session
from .setup.options import ParsedOptions, UsageError
from .setup.session_builder import PERSON, OpenSession
from .setup.setup import Setup, session_setup, with_values

_PRELOAD_AFTER_S = 0.2
"""After the prompt is painted, what the first request needs is imported in a thread."""
_LEARN_AFTER_S = 1.0
"""MCP servers of which nothing is known are connected when the prompt stands."""
_SETTINGS = ("model", "mode", "effort")
_PRUNE_AFTER_S = 5.0
"""Old sessions go, at most once a day, when nobody waits for it."""


async def _run_one_by_one(setup: Setup, first_input: FirstInput, painted: FirstPaint) -> int:
    """Run one session after another, until the user quits. When one cannot be opened, the one before it is
    opened again."""
    ready: Setup | None = setup
    chosen, back = setup.chosen, None
    in_repl: dict[str, str] = {}
    """What was chosen in this REPL, after its start."""
    while True:
        try:
            setup = ready or session_setup(chosen)
            opened = await open_session(setup, PERSON)
        except (StoreError, UsageError, NoModel, MissingKey, ModelError) as error:
            if back is None:
                raise
            print(f"agent: {error}", file=sys.stderr)
            ready, chosen, back = None, back, None
            continue
        before = _in_force(opened)
        try:
            leaving = await _one_session(setup, opened, first_input, painted)
        finally:
            painted.give_way()
        if leaving.kind == "quit":
            return 0
        if leaving.kind == "terminated":
            return EXIT_CODES["terminated"]
        ready, first_input, painted = None, NOTHING, FirstPaint(setup.config.ui)
        now = _in_force(opened)
        in_repl |= {key: value for key, value in now.items() if value != before[key]}
        back = _naming(setup.chosen, _saved_id(opened), now)
        chosen = _naming(setup.chosen, leaving.session_id, _carried(leaving, now, in_repl))
        if leaving.add_dir:
            chosen = with_values(chosen, add_dir=[*chosen.several("add_dir"), leaving.add_dir])
        if leaving.kind == "fork":
            chosen = with_values(chosen, fork=True, fork_at=leaving.turn_id or None)


def _in_force(opened: OpenSession) -> dict[str, str]:
    """Return the settings that a session is in now."""
    now = opened.agent.snapshot()
    return {"model": now.model, "mode": now.mode, "effort": now.effort}


def _carried(leaving: ExitReason, now: dict[str, str], in_repl: dict[str, str]) -> dict[str, str]:
    """Return the settings that go along into the next session. A new one, a copy and the same one go on in those
    in force; a saved one in its own, but for what was chosen in this REPL; `yolo` is to be chosen again."""
    if leaving.kind != "resume" or leaving.add_dir:
        return now
    return {key: value for key, value in in_repl.items() if value != "yolo"}


def _naming(chosen: ParsedOptions, session_id: str, settings: dict[str, str]) -> ParsedOptions:
    """Return the same command line for a saved session, or for a new one, with other settings: those it named were
    for the session it has begun."""
    sets = [each for each in chosen.several("set") if each.partition("=")[0].strip() not in _SETTINGS]
    named = {key: settings.get(key) or None for key in _SETTINGS}
    return with_values(
        chosen, resume=session_id or None, fork=False, fork_at=None, set=sets, **named, **{"continue": False}
    )


def _saved_id(opened: OpenSession) -> str:
    now = opened.agent.snapshot()
    return now.session_id if now.session_path and now.turns else ""


async def _one_session(
    setup: Setup, opened: OpenSession, first_input: FirstInput, painted: FirstPaint
) -> ExitReason:
    painted.show(opened.agent.snapshot(), current_branch(setup.root))
    for line in _opening_lines(setup, opened):
        painted.say(line)
    loop = asyncio.get_running_loop()
    repl = asyncio.current_task()
    assert repl is not None
    model = opened.agent.snapshot().model
    loading = threading.Thread(target=preload, args=(model, setup.config, setup.environment()), daemon=True)
    loop.call_later(_PRELOAD_AFTER_S, loading.start)
    loop.call_later(_PRUNE_AFTER_S, threading.Thread(target=_prune, args=(setup,), daemon=True).start)
    with signal_handlers({signal.SIGTERM: repl.cancel, signal.SIGHUP: repl.cancel}):
        return await _until_left(setup, opened, first_input, painted)


def _opening_lines(setup: Setup, opened: OpenSession) -> Iterator[str]:
    """Yield what to say before the first prompt: what is wrong, and what was loaded."""
    yield from (f"agent: {note}" for note in (*opened.notes, *_due(setup)))
    theme = choose_theme(setup.config.ui) if sys.stderr.isatty() else NONE
    if unwritable := opened.permissions.unwritable():
        yield theme.paint("muted", f"Nothing here can be changed: {clean(unwritable)}")
    if loaded := loaded_line(setup, opened):
        yield theme.paint("muted", loaded)


async def _until_left(
    setup: Setup, opened: OpenSession, first_input: FirstInput, painted: FirstPaint
) -> ExitReason:
    try:
        return await _lived(setup, opened, first_input, painted)
    finally:
        for note in opened.last_words:
            print(f"agent: {clean(note)}", file=sys.stderr)


async def _lived(setup: Setup, opened: OpenSession, first_input: FirstInput, painted: FirstPaint) -> ExitReason:
    async with opened.running():
        if opened.servers is not None:
            opened.servers.learn_in_background(_LEARN_AFTER_S)
        try:
            return await run_repl(
                opened.agent,
                SessionHost(setup, opened),
                setup.config.ui,
                history_file=setup.state / "history",
                first_input=first_input,
                painted=painted,
            )
        except asyncio.CancelledError:
            opened.agent.stop("terminated")
            return ExitReason("terminated")


def _due(setup: Setup) -> Iterator[str]:
    """Yield what to say of old sessions that are about to go."""
    if (setup.state / "prune.json").exists():
        from agent_cli.store.prune_notices import due_notice

        if notice := due_notice(setup.state):
            yield notice


def _prune(setup: Setup) -> None:
    from .commands.sessions.pruning import prune_quietly

    prune_quietly(setup)


def run_sessions(setup: Setup, first_input: FirstInput, painted: FirstPaint) -> int:
    """Run sessions in an event loop until the user quits, and return the exit code; `painted` is what stands on
    the screen already. An interrupt that comes while the loop is made waits until it stands.

    Raises:
        StoreError, UsageError, NoModel, MissingKey, ModelError: the first one cannot be opened.
    """
    interrupts = {signal.SIGINT}

    async def sessions() -> int:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)
        return await _run_one_by_one(setup, first_input, painted)

    signal.pthread_sigmask(signal.SIG_BLOCK, interrupts)
    try:
        return asyncio.run(sessions())
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)
