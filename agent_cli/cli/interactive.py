"""`agent` and `agent resume`: the way to the first paint, which needs little. The engine, the event loop and the
line editor are loaded when the prompt stands on the screen."""

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
from agent_cli.ui.text.lines import ago
from agent_cli.ui.text.theme import choose as choose_theme
from agent_cli.ui.text.theme import is_plain
from agent_cli.workspace.git.repository import current_branch

from .services.trust_prompt import ask_for_trust

_MOST_PICKED = 200


def interactive_command(chosen: ParsedOptions) -> int:
    """Run the REPL until the user leaves; returns the exit code.

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
        _keep(keyboard.unread(), setup)
        give_back()


def _keep(typed: str, setup: Setup) -> None:
    """Keep what was typed for a prompt that nothing has ever read: as a draft, which the next start proposes."""
    if typed:
        from agent_cli.ui.repl.drafts import DraftFile

        DraftFile(setup.state / "drafts", str(setup.workspace.root)).keep(typed)


def _expected_start(setup: Setup) -> SessionStarted | None:
    """Return what a new session will begin with, before it is there; None where that is not known: a session goes
    on, a server must be asked for the model, the sandbox was not measured yet, or something is wrong."""
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
    """Run the sessions. Where no model can be used, or that which was named has no key, a person at a terminal may
    paste a key and go on.

    Raises:
        NoModel, MissingKey: nobody could be asked for a key.
    """
    try:
        return _paint_and_run(setup, first_input, keyboard)
    except (NoModel, MissingKey) as error:
        provider = error.provider if isinstance(error, MissingKey) else ""
        helps = bool(provider) or isinstance(error, NoModel)
        if not helps or first_input.is_data or is_plain(setup.config.ui, sys.stdin, sys.stdout):
            raise
        code = _cannot_start(error)
    from .services.key_entry import ask_for_key

    return _paint_and_run(setup, first_input, keyboard) if ask_for_key(setup, provider) else code


def _cannot_start(error: NoModel | MissingKey) -> int:
    from .services.first_run import cannot_start

    return cannot_start(error)


def _paint_and_run(setup: Setup, first_input: FirstInput, keyboard: TypeAhead) -> int:
    """Paint what is known of the first session, then load the rest and run the sessions. Signals wait meanwhile:
    an exception in the middle of loading can crash an extension module."""
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
    """Return what the conversation begins with. Standard input that is no terminal is data: context beside the
    prompt, the prompt itself where there is none. After it the keys come from the terminal, if there is one. Only
    `--plain` on the command line has lines read from a pipe.

    Raises:
        UsageError: there is nothing to begin with, or a pipe beside a command.
    """
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
    return FirstInput(beside(prompt, piped) if prompt else piped, is_data=True, has_prompt=bool(prompt))


def _guarded(setup: Setup) -> Callable[[], None]:
    """Have the terminal given back even if the program is killed; call the result when it ends by itself."""
    if is_plain(setup.config.ui, sys.stdin, sys.stdout):
        return lambda: None
    from agent_cli.sandbox.process.terminal_guard import guard_terminal

    return guard_terminal(sys.stdout.fileno(), (RESET + CLEAR_BELOW).encode())


def _named(chosen: ParsedOptions) -> ParsedOptions:
    """`agent resume [ID]` and `agent --resume`: the id, the last one, or one picked from a list."""
    setup = Setup(chosen)
    if chosen.command == "resume" and chosen.positional:
        return with_values(chosen, resume=chosen.positional)
    is_listed = is_plain(setup.config.ui, sys.stdin, sys.stdout)
    limit = MOST_LISTED if is_listed else _MOST_PICKED
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
    import asyncio

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
