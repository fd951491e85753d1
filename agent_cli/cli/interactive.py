"""`agent` and `agent resume`: the REPL, and moving from one session to the next without leaving it."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent_cli.config.api_keys import keyed
from agent_cli.model.routing import MissingKey, NoModel, preload
from agent_cli.model.types.base import ModelError
from agent_cli.protocol.records import Header, storable_text
from agent_cli.protocol.sanitize import clean
from agent_cli.protocol.stop_reason import EXIT_CODES
from agent_cli.store.catalog import NoSession, SessionInfo
from agent_cli.store.session_file import StoreError, read_session
from agent_cli.ui.commands import registry
from agent_cli.ui.commands.api import NOTHING, Choice, ExitReason, FirstInput
from agent_cli.ui.repl.repl import run_repl
from agent_cli.ui.signals import signal_handlers
from agent_cli.ui.text.lines import ago
from agent_cli.ui.text.theme import NONE, is_plain
from agent_cli.ui.text.theme import choose as choose_theme

from .services.extensions.loaded_line import loaded_line
from .services.first_run import cannot_start
from .services.repl_services import RECENT, SessionHost
from .services.trust_prompt import ask_for_trust
from .setup.compose import open_session
from .setup.options import ParsedOptions, UsageError
from .setup.piped_input import beside, read_piped, take_terminal
from .setup.session_builder import PERSON, OpenSession
from .setup.setup import Setup, with_values

_MOST_PICKED = 200
_PRELOAD_AFTER_S = 0.2
"""After the prompt is painted, what the first request needs is imported in a thread."""
_LEARN_AFTER_S = 1.0
"""MCP servers of which nothing is known are connected when the prompt stands."""
_SETTINGS = ("model", "mode", "effort")
_PRUNE_AFTER_S = 5.0
"""Old sessions go, at most once a day, when nobody waits for it."""


def interactive_command(chosen: ParsedOptions) -> int:
    """Run the REPL until the user leaves; returns the exit code.

    Raises:
        UsageError, ConfigError, StoreError: nothing was started.
    """
    first_input = _first_input(chosen)
    if chosen.command == "resume" or chosen.text("resume") == "":
        chosen = _named(chosen)
    setup = _setup(chosen)
    give_back = _guarded(setup)
    try:
        ask_for_trust(setup)
        return _started(setup, first_input)
    except (NoModel, MissingKey) as error:
        return cannot_start(error)
    except ModelError as error:
        print(f"agent: {error}", file=sys.stderr)
        return EXIT_CODES["bad_model"]
    finally:
        give_back()


def _started(setup: Setup, first_input: FirstInput) -> int:
    """Run the sessions. Where no model can be used, or that which was named has no key, a person at a terminal may
    paste a key and go on.

    Raises:
        NoModel, MissingKey: nobody could be asked for a key.
    """
    try:
        return _looped(setup, first_input)
    except (NoModel, MissingKey) as error:
        provider = error.provider if isinstance(error, MissingKey) else ""
        helps = bool(provider) or isinstance(error, NoModel)
        if not helps or first_input.is_data or is_plain(setup.config.ui, sys.stdin, sys.stdout):
            raise
        code = cannot_start(error)
    from .services.key_entry import ask_for_key

    return _looped(setup, first_input) if ask_for_key(setup, provider) else code


def _looped(setup: Setup, first_input: FirstInput) -> int:
    """Run the sessions in an event loop. An interrupt that comes while the loop is made waits until it stands."""
    interrupts = {signal.SIGINT}

    async def sessions() -> int:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)
        return await _sessions(setup, first_input)

    signal.pthread_sigmask(signal.SIG_BLOCK, interrupts)
    try:
        return asyncio.run(sessions())
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)


def _first_input(chosen: ParsedOptions) -> FirstInput:
    """Return what the conversation begins with. Standard input that is no terminal is data: context beside the
    prompt, the prompt itself where there is none. After it the keys come from the terminal, if there is one. Only
    `--plain` on the command line has lines read from a pipe.

    Raises:
        UsageError: there is nothing to begin with, or a pipe beside a command.
    """
    prompt = (chosen.positional or "") if chosen.command == "agent" else ""
    if sys.stdin.isatty() or chosen.flag("plain"):
        return FirstInput(prompt)
    piped = read_piped(patient=not prompt or sys.stdout.isatty())
    if piped is None:
        return FirstInput(prompt)
    if not piped.strip():
        if not prompt and chosen.command == "agent" and not (chosen.flag("continue") or chosen.text("resume")):
            raise UsageError('nothing to do: standard input is empty; write `agent "PROMPT"`, or pipe one in')
        return FirstInput(prompt)
    if prompt.startswith("!") or registry.parse(prompt):
        raise UsageError(f"{prompt.split()[0]} takes no piped text; write a prompt beside the pipe")
    take_terminal()
    return FirstInput(beside(prompt, piped) if prompt else piped, is_data=True, has_prompt=bool(prompt))


def _guarded(setup: Setup) -> Callable[[], None]:
    """Have the terminal given back even if the program is killed; call the result when it ends by itself."""
    if is_plain(setup.config.ui, sys.stdin, sys.stdout):
        return lambda: None
    from agent_cli.sandbox.process.terminal_guard import guard_terminal
    from agent_cli.ui.repl.terminal import RESET

    return guard_terminal(sys.stdout.fileno(), RESET.encode())


async def _sessions(setup: Setup, first_input: FirstInput) -> int:
    """One session after another, until the user quits. When one cannot be opened, the one before it is
    opened again."""
    ready: Setup | None = setup
    chosen, back = setup.chosen, None
    in_repl: dict[str, str] = {}
    """What was chosen in this REPL, after its start."""
    while True:
        try:
            setup = ready or _setup(chosen)
            opened = await open_session(setup, PERSON)
        except (StoreError, UsageError, NoModel, MissingKey, ModelError) as error:
            if back is None:
                raise
            print(f"agent: {error}", file=sys.stderr)
            ready, chosen, back = None, back, None
            continue
        before = _in_force(opened)
        leaving = await _one_session(setup, opened, first_input)
        if leaving.kind == "quit":
            return 0
        if leaving.kind == "terminated":
            return EXIT_CODES["terminated"]
        ready, first_input = None, NOTHING
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


async def _one_session(setup: Setup, opened: OpenSession, first_input: FirstInput) -> ExitReason:
    for note in (*opened.notes, *_due(setup)):
        print(f"agent: {note}", file=sys.stderr)
    theme = choose_theme(setup.config.ui) if sys.stderr.isatty() else NONE
    if unwritable := opened.permissions.unwritable():
        print(theme.paint("muted", f"Nothing here can be changed: {clean(unwritable)}"), file=sys.stderr)
    if loaded := loaded_line(setup, opened):
        print(theme.paint("muted", loaded), file=sys.stderr)
    loop = asyncio.get_running_loop()
    repl = asyncio.current_task()
    assert repl is not None
    model = opened.agent.snapshot().model
    env = keyed(os.environ, setup.config_dir)
    loading = threading.Thread(target=preload, args=(model, setup.config, env), daemon=True)
    loop.call_later(_PRELOAD_AFTER_S, loading.start)
    loop.call_later(_PRUNE_AFTER_S, threading.Thread(target=_prune, args=(setup,), daemon=True).start)
    with signal_handlers({signal.SIGTERM: repl.cancel, signal.SIGHUP: repl.cancel}):
        return await _until_left(setup, opened, first_input)


async def _until_left(setup: Setup, opened: OpenSession, first_input: FirstInput) -> ExitReason:
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
    from .commands.sessions.files import prune_quietly

    prune_quietly(setup)


def _setup(chosen: ParsedOptions) -> Setup:
    """Return a resumed session works where it was, unless --cd says otherwise."""
    setup = Setup(chosen)
    identifier = chosen.text("resume")
    if identifier and not chosen.text("cd"):
        header = read_session(setup.sessions.find(identifier)).records[0]
        if isinstance(header, Header) and header.cwd != storable_text(str(setup.root)):
            if not Path(header.cwd).is_dir():
                raise UsageError(f"the session worked in {header.cwd}, which is gone; name a directory with --cd")
            return Setup(chosen, root=Path(header.cwd))
    return setup


def _named(chosen: ParsedOptions) -> ParsedOptions:
    """`agent resume [ID]` and `agent --resume`: the id, the last one, or one picked from a list."""
    setup = Setup(chosen)
    if chosen.command == "resume" and chosen.positional:
        return with_values(chosen, resume=chosen.positional)
    is_listed = is_plain(setup.config.ui, sys.stdin, sys.stdout)
    limit = RECENT if is_listed else _MOST_PICKED
    infos = setup.sessions.list(None if chosen.flag("last") else setup.root, limit=limit)
    if not infos:
        raise NoSession("there is no session to resume; start one with `agent`")
    if chosen.flag("last") or len(infos) == 1:
        return with_values(chosen, resume=infos[0].id)
    if not sys.stdin.isatty():
        raise UsageError("name a session, or use --last")
    return with_values(chosen, resume=_listed(infos) if is_listed else _picked(setup, infos))


def _picked(setup: Setup, infos: Sequence[SessionInfo]) -> str:
    """Return the session somebody picks from a list.

    Raises:
        NoSession: none was.
    """
    from agent_cli.ui.repl.standalone_picker import choose

    rows = [Choice(info.id, clean(info.title), f"{ago(info.updated)} · {info.id}") for info in infos]
    give_back = _guarded(setup)
    try:
        picked = asyncio.run(choose("Which session?", rows, choose_theme(setup.config.ui)))
    finally:
        give_back()
    if not picked:
        raise NoSession("none was picked; `agent` starts a new one")
    return picked


def _listed(infos: Sequence[SessionInfo]) -> str:
    """Return the session whose number is typed, or the beginning of an id, where lists cannot be drawn."""
    for number, info in enumerate(infos, start=1):
        print(clean(f"{number:3}  {info.id}  {ago(info.updated):>10}  {info.title}"))
    answer = input("Which one? [1] ").strip() or "1"
    if answer.isdigit() and 1 <= int(answer) <= len(infos):
        return infos[int(answer) - 1].id
    return answer
