"""`agent` and `agent resume`: the steps up to the first paint, with few imports. The engine, the event loop and
the line editor are loaded while the prompt is on the screen."""

import sys
from collections.abc import Callable, Sequence

from agent_cli import __version__
from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.sandbox_setup import expected_level
from agent_cli.bootstrap.setup import Setup, session_setup, with_values
from agent_cli.config.layer import ConfigError
from agent_cli.model.routing import MissingKey, NoModel, known_default, resolve
from agent_cli.model.types.base import ModelError, NotSent
from agent_cli.protocol.events import SessionStarted
from agent_cli.protocol.sanitize import clean
from agent_cli.protocol.stop_reason import EXIT_CODES
from agent_cli.store.catalog import MOST_LISTED, NoSession, SessionInfo
from agent_cli.ui.commands.api import Choice, FirstInput
from agent_cli.ui.early_signals import EARLY
from agent_cli.ui.repl.first_paint import FirstPaint
from agent_cli.ui.repl.terminal_modes import CLEAR_BELOW, RESET, TypeAhead
from agent_cli.ui.services import MOST_SESSIONS
from agent_cli.ui.text.lines import ago
from agent_cli.ui.text.theme import choose as choose_theme
from agent_cli.ui.text.theme import is_plain
from agent_cli.workspace.git.repository import current_branch

from .services.trust_prompt import ask_for_trust


def interactive_command(chosen: ParsedOptions) -> int:
    """Run the REPL until the user leaves; return the exit code.

    Raises:
        UsageError, ConfigError, StoreError: nothing was started.
    """
    first_input = _first_input(chosen)
    if chosen.command == "resume" or chosen.text("resume") == "":
        chosen = _named(chosen)
    setup = session_setup(chosen)
    give_back, keyboard = _guarded(setup), TypeAhead()
    try:
        ask_for_trust(setup)
        return _started(setup, first_input, keyboard)
    except (NoModel, MissingKey) as error:
        return _cannot_start(error)
    except ModelError as error:
        print(f"agent: {error}", file=sys.stderr)
        return EXIT_CODES["bad_model"]
    finally:
        if typed := keyboard.unread():  # for a prompt that was never read; the next start offers it
            from agent_cli.ui.repl.drafts import DraftFile

            DraftFile(setup.state / "drafts", str(setup.workspace.root)).keep(typed)
        give_back()


def _expected_start(setup: Setup) -> SessionStarted | None:
    """Return the expected start of a new session before it is open; None if unknown: the session is resumed, a
    server must be asked for the model, the sandbox is not measured yet, or something is wrong."""
    chosen, config = setup.chosen, setup.config
    if chosen.text("resume") or chosen.flag("continue") or chosen.flag("fork"):
        return None
    try:
        env = setup.environment().expected()
        model = resolve(config.model or known_default(config, env), config.providers, env).name
    except (NotSent, ConfigError):
        return None
    if (sandbox := expected_level(setup)) is None:
        return None
    return SessionStarted(
        session_id="",
        model=model,
        cwd=str(setup.workspace.root),
        mode=config.mode,
        sandbox=sandbox,
        version=__version__,
    )


def _started(setup: Setup, first_input: FirstInput, keyboard: TypeAhead) -> int:
    """Run the sessions. If no model can be used, or the chosen one has no key, the user at a terminal may paste a
    key and continue.

    Raises:
        NoModel, MissingKey: nobody could be asked for a key.
    """
    try:
        return _paint_and_run(setup, first_input, keyboard)
    except (NoModel, MissingKey) as error:
        provider = error.provider if isinstance(error, MissingKey) else ""
        helps = bool(provider) or isinstance(error, NoModel)
        if not helps or first_input.has_piped_text or is_plain(setup.config.ui, sys.stdin, sys.stdout):
            raise
        code = _cannot_start(error)
    from .services.key_entry import ask_for_key

    return _paint_and_run(setup, first_input, keyboard) if ask_for_key(setup, provider) else code


def _cannot_start(error: NoModel | MissingKey) -> int:
    from .services.early_result import cannot_start

    return cannot_start(error)


def _paint_and_run(setup: Setup, first_input: FirstInput, keyboard: TypeAhead) -> int:
    """Paint the known facts of the first session, then load the rest and run the sessions. Signals are deferred
    meanwhile: an exception during loading can crash an extension module."""
    painted = FirstPaint(setup.config.ui, current_branch(setup.root), keyboard)
    EARLY.hold()
    try:
        painted.take()
        if (expected := _expected_start(setup)) is not None:
            painted.show_expected(expected)
        from .repl_sessions import run_sessions

        return run_sessions(setup, first_input, painted)
    finally:
        painted.end()
        EARLY.drop()


def _first_input(chosen: ParsedOptions) -> FirstInput:
    """Return the first input of the conversation. Standard input that is not a terminal is data: context for the
    prompt, or the prompt itself if there is none. Afterwards keys come from the terminal, if there is one. Only
    with `--plain` on the command line are lines read from a pipe."""
    prompt = (chosen.positional or "") if chosen.command == "agent" else ""
    if sys.stdin.isatty() or chosen.flag("plain"):
        return FirstInput(prompt)
    from .services.piped_input import beside, read_piped, take_terminal

    piped = read_piped(patient=not prompt or sys.stdout.isatty())
    if piped is None:
        return FirstInput(prompt)
    if not piped.strip():
        if not prompt and chosen.command == "agent" and not (chosen.flag("continue") or chosen.text("resume")):
            raise UsageError('nothing to do: standard input is empty; write `agent "PROMPT"`, or pipe one in')
        return FirstInput(prompt)
    from agent_cli.ui.commands import registry

    if prompt.startswith("!") or registry.parse(prompt):
        raise UsageError(f"{prompt.split()[0]} takes no piped text; write a prompt beside the pipe")
    take_terminal()
    return FirstInput(beside(prompt, piped) if prompt else piped, has_piped_text=True, has_prompt=bool(prompt))


def _guarded(setup: Setup) -> Callable[[], None]:
    """Restore the terminal even if the program is killed; call the result when it ends normally."""
    if is_plain(setup.config.ui, sys.stdin, sys.stdout):
        return lambda: None
    from agent_cli.sandbox.process.terminal_guard import guard_terminal

    return guard_terminal(sys.stdout.fileno(), (RESET + CLEAR_BELOW).encode())


def _named(chosen: ParsedOptions) -> ParsedOptions:
    """Choose the session of `agent resume [ID]` and `agent --resume`: the given id, the last one, or a picked
    one."""
    setup = Setup(chosen)
    if chosen.command == "resume" and chosen.positional:
        return with_values(chosen, resume=chosen.positional)
    is_listed = is_plain(setup.config.ui, sys.stdin, sys.stdout)
    limit = MOST_LISTED if is_listed else MOST_SESSIONS
    infos = setup.sessions.list(None if chosen.flag("last") else setup.root, limit=limit)
    if not infos:
        raise NoSession("there is no session to resume; start one with `agent`")
    if chosen.flag("last") or len(infos) == 1:
        return with_values(chosen, resume=infos[0].id)
    if not sys.stdin.isatty():
        raise UsageError("name a session, or use --last")
    return with_values(chosen, resume=_listed(infos) if is_listed else _picked(setup, infos))


def _picked(setup: Setup, infos: Sequence[SessionInfo]) -> str:
    """Return the session that the user picks from a list."""
    import asyncio

    from agent_cli.ui.repl.standalone_picker import choose

    rows = [Choice(info.id, clean(info.title), f"{ago(info.updated)} · {info.id}") for info in infos]
    more = f" (the newest {MOST_SESSIONS}; `agent sessions search WORDS` finds all)"
    question = f"Which session?{more if len(infos) == MOST_SESSIONS else ''}"
    give_back = _guarded(setup)
    try:
        picked = asyncio.run(choose(question, rows, choose_theme(setup.config.ui)))
    finally:
        give_back()
    if not picked:
        raise NoSession("none was picked; `agent` starts a new one")
    return picked


def _listed(infos: Sequence[SessionInfo]) -> str:
    """Return the session whose number or id prefix is typed, on a terminal that cannot show a picker."""
    for number, info in enumerate(infos, start=1):
        print(clean(f"{number:3}  {info.id}  {ago(info.updated):>10}  {info.title}"))
    if len(infos) == MOST_LISTED:
        print(f"These are the newest {MOST_LISTED}; the id or the name of another one works too.")
    answer = input("Which one? [1] ").strip() or "1"
    if answer.isdecimal() and 1 <= int(answer) <= len(infos):
        return infos[int(answer) - 1].id
    return answer
