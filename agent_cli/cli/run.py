"""`agent run`: one task without interaction."""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli.bootstrap.compose import open_session
from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.session_builder import NON_INTERACTIVE, FrontEnd, OpenSession
from agent_cli.bootstrap.setup import Setup, check_output_file, with_values
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.sanitize import Sanitizer, clean
from agent_cli.protocol.stop_reason import EXIT_CODES
from agent_cli.ui.early_signals import StoppedEarly
from agent_cli.ui.headless.runner import Pipe, RunResult, StopHandle, run_task
from agent_cli.ui.signals import ENDING, signal_handlers

from .services.trust_prompt import inert_lines, pending_trust_requests

if TYPE_CHECKING:
    from agent_cli.bootstrap.answers.answer_schema import AnswerSchema

_CANCEL_S = 5.0
"""Seconds allowed for cancelling the opening of a session."""


def reads_operations(chosen: ParsedOptions) -> bool:
    """Return True if standard input contains operations."""
    return chosen.text("input_format") == "stream-json"


def run_command(chosen: ParsedOptions) -> int:
    """Run one task; return the exit code.

    Raises:
        UsageError, ConfigError, StoreError, NoModel, ModelError: nothing was started.
    """
    gc.freeze()  # loaded modules stay: exclude them from garbage collection
    schema = _answer_schema(chosen)
    if schema:
        chosen = with_values(chosen, answer_request=schema.request)
    setup = Setup(chosen)
    is_conversation = reads_operations(chosen)
    given, piped = _first_task(chosen) if is_conversation else _task(chosen)
    images = tuple(_image(Path(path)) for path in chosen.several("image"))
    if (file := chosen.text("output_file")) is not None:
        check_output_file("--output-file", file)
    if (command := chosen.text("verify")) is not None and not command.strip():
        raise UsageError("--verify: the command is empty, which would verify nothing")
    if not chosen.flag("quiet"):
        for line in inert_lines(pending_trust_requests(setup)):
            print(f"{line} Start `agent` once.", file=sys.stderr)
    paths = tuple(str(Path(path).absolute()) for path in chosen.several("image"))
    prompt = None
    if given:
        prompt = _with_schema(
            msgspec.structs.replace(_prompt(setup, given, piped), images=images, image_paths=paths), schema
        )
    return asyncio.run(_run(setup, prompt, schema))


def _first_task(chosen: ParsedOptions) -> tuple[str, str]:
    """Return the first task of a conversation, empty for none; nothing is piped in beside it."""
    why = ""
    if chosen.text("output_format") not in (None, "stream-json"):
        why = "goes with --output-format stream-json only"
    elif chosen.positional == "-":
        why = "takes operations from standard input, so - cannot be the task"
    elif chosen.text("verify") is not None:
        why = "does not go with --verify: no single prompt is the task"
    elif not chosen.positional and chosen.several("image"):
        why = "needs a task for --image; a line of its own has `images`"
    if why:
        raise UsageError(f"--input-format stream-json {why}")
    return (chosen.positional or "").strip() and (chosen.positional or ""), ""


def _with_schema(prompt: UserInput, schema: "AnswerSchema | None") -> UserInput:
    return msgspec.structs.replace(prompt, answer_schema=schema.definition) if schema else prompt


async def _run(setup: Setup, prompt: UserInput | None, schema: "AnswerSchema | None") -> int:
    stopper = StopHandle()
    if (timeout_s := setup.chosen.number("timeout")) is not None:
        asyncio.get_running_loop().call_later(timeout_s, stopper.stop, "time_limit")
    with signal_handlers({number: partial(stopper.stop, why, number) for number, why in ENDING.items()}):
        opened = await _opened(setup, stopper)
        for note in opened.notes:
            print(f"agent: {note}", file=sys.stderr)
        for text in opened.agent.snapshot().unsent:
            print(f"agent: queued when the program ended, and not sent: {clean(text)}", file=sys.stderr)
        async with opened.running():
            if reads_operations(setup.chosen):
                result = await _conversation(setup, opened, prompt, schema, stopper)
            else:
                assert prompt is not None
                result = await run_task(
                    opened.agent,
                    prompt,
                    output_format=setup.chosen.values.get("output_format", "text"),
                    quiet=setup.chosen.flag("quiet"),
                    settings=setup.config.ui,
                    out=sys.stdout,
                    err=sys.stderr,
                    verify=_verifier(setup, opened),
                    parse_answer=schema.read if schema else None,
                    stopper=stopper,
                )
        for note in opened.exit_messages:
            print(f"agent: {clean(note)}", file=sys.stderr)
        if result.exit_code >= EXIT_CODES["interrupted"]:
            _write_file(setup.chosen, result)
            return result.exit_code
        return _write_file(setup.chosen, result) or result.exit_code


async def _conversation(
    setup: Setup,
    opened: OpenSession,
    task: UserInput | None,
    schema: "AnswerSchema | None",
    stopper: StopHandle,
) -> RunResult:
    """Run the operations on standard input."""
    from agent_cli.ui.headless.conversation import run_conversation
    from agent_cli.ui.headless.line_streams import Line, ThreadedOutput, lines_of
    from agent_cli.ui.headless.operation_lines import OperationLine, read_operation

    def read(line: Line) -> OperationLine:
        return read_operation(line, lambda given: _with_schema(_prepared(setup, given), schema))

    return await run_conversation(
        opened.agent,
        task,
        lines_of(0, read),
        out=ThreadedOutput(sys.stdout.fileno()),
        err=Pipe(sys.stderr, stopper),
        quiet=setup.chosen.flag("quiet"),
        parse_answer=schema.read if schema else None,
        schema=schema.definition if schema else None,
        stopper=stopper,
    )


def _prepared(setup: Setup, given: UserInput) -> UserInput:
    """Return a prompt ready to be sent."""
    from agent_cli.tools.files.images import PictureError, fit_image

    try:
        called = None if given.is_data else _called(setup, given.text)
        images = tuple(map(fit_image, given.images))
    except (UsageError, PictureError) as error:
        raise ValueError(str(error)) from error
    return msgspec.structs.replace(called or given, images=images)


async def _opened(setup: Setup, stopper: StopHandle) -> OpenSession:
    """Open the session, unless something stops the run."""
    front = FrontEnd(approves=True, answers=True) if reads_operations(setup.chosen) else NON_INTERACTIVE
    opening = asyncio.ensure_future(open_session(setup, front))
    stopped = asyncio.ensure_future(stopper.wait())
    await asyncio.wait({opening, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if stopper.reason and not opening.done():
        opening.cancel()
        await asyncio.wait({opening}, timeout=_CANCEL_S)
        raise StoppedEarly(stopper.reason, stopper.signal)
    return await opening


def _verifier(setup: Setup, opened: OpenSession) -> Callable[[], Awaitable[bool]] | None:
    command = setup.chosen.text("verify")
    if command is None:
        return None

    async def verify() -> bool:
        from agent_cli.engine.tool_calls.user_command import run_user_command

        text = Sanitizer()

        def show(data: bytes, final: bool = False) -> None:
            if not setup.chosen.flag("quiet"):
                sys.stderr.write(text.feed(data, final))

        done = await run_user_command(command, opened.permissions, opened.tool_context, show)
        show(b"", final=True)
        for note in done.notes:
            print(f"verify: {clean(note)}", file=sys.stderr)
        return done.succeeded

    return verify


def _prompt(setup: Setup, given: str, piped: str) -> UserInput:
    """Return the input for a task, expanded if it calls a custom command or a skill.

    Raises:
        UsageError: the command cannot be used, comes with the project and is not approved, or is a built-in one.
    """
    from .services.piped_input import beside

    if setup.chosen.positional in (None, "-"):
        return UserInput(given, is_data=True)
    prompt = _called(setup, given)
    if prompt is None:
        _refuse_command(given)
        prompt = UserInput(given)
    return msgspec.structs.replace(prompt, text=beside(prompt.text, piped))


def _called(setup: Setup, given: str) -> UserInput | None:
    """Return the expansion of a text that calls a custom command or a skill; None if it calls none.

    Raises:
        UsageError: the command cannot be used, or comes with the project and is not approved.
    """
    if not given.startswith(("/", "$")):
        return None
    from .services.extensions.custom_commands import called_prompt

    prompt = None
    if given.startswith("/"):
        prompt = called_prompt(setup, given)
    if prompt is None and setup.skill_places():
        from .services.extensions.skill_calls import called_skill

        prompt = called_skill(setup, given)
    if prompt is None and given.startswith("/"):
        prompt = called_prompt(setup, given, by_end=True)
    return prompt


_FROM_THE_SHELL = {
    "bug": "agent bug",
    "config": "agent config show",
    "cost": "agent stats",
    "doctor": "agent doctor",
    "export": "agent sessions export ID",
    "help": "agent help",
    "mcp": "agent mcp list",
    "permissions": "agent permissions list",
    "plugins": "agent plugin list",
    "redo": "agent redo",
    "review": "agent review",
    "search": "agent sessions search WORDS",
    "sessions": "agent sessions list",
    "skills": "agent skills list",
    "trace": "agent trace show ID",
    "undo": "agent undo",
}
"""Slash commands, and what does the same without a conversation."""


def _refuse_command(given: str) -> None:
    """Refuse a task that is nothing but a built-in slash command; a model would get its name as text.

    Raises:
        UsageError: it is one; the text says how to run it.
    """
    if not given.startswith("/"):
        return
    from agent_cli.ui.commands.registry import OTHER_NAMES, TABLE, parse

    name, argument = parse(given) or ("", "")
    name = OTHER_NAMES.get(name, name)
    if name in TABLE and argument[:1] in ("", "-"):
        shell = _FROM_THE_SHELL.get(name)
        instead = f"`{shell}` does it from the shell" if shell else "start `agent` for it"
        raise UsageError(
            f"{given.split()[0]} is a command of conversations; {instead}, or pipe the text in as a task"
        )


def _task(chosen: ParsedOptions) -> tuple[str, str]:
    """Return the task, and piped data beside it. Without an argument the task is standard input."""
    from .services.piped_input import read_all, read_piped

    given = chosen.positional
    if given is None or given == "-":
        if sys.stdin is None or (given is None and sys.stdin.isatty()):
            raise UsageError('no task; write `agent run "…"`, or pipe one in')
        given = read_all()
        if not given.strip():
            raise UsageError("the task on standard input is empty")
        return given, ""
    if not given.strip():
        raise UsageError("the task is empty")
    return given, read_piped(patient=False) or ""


def _image(path: Path) -> Image:
    """Return the image in a file, fitted for a model."""
    from agent_cli.tools.files.images import PictureError, read_image

    try:
        return read_image(path)
    except PictureError as error:
        raise UsageError(f"--image {error}") from error


def _answer_schema(chosen: ParsedOptions) -> "AnswerSchema | None":
    name = chosen.text("output_schema")
    if name is None:
        return None
    from agent_cli.bootstrap.answers.answer_schema import AnswerSchema

    return AnswerSchema.of_file(name)


def _write_file(chosen: ParsedOptions, result: RunResult) -> int:
    """Write the final text to `--output-file`; on failure report it. Return the exit code: 0 if it was written."""
    name = chosen.text("output_file")
    if name is None:
        return 0
    from agent_cli.fs.waiting_io import WriteInterrupted, write_output

    try:
        write_output(name, result.text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        print(f"agent: cannot write {name}: {error.strerror}", file=sys.stderr)
        return EXIT_CODES["internal_error"]
    except WriteInterrupted as error:
        print(f"agent: {name} was not written completely: nobody read it", file=sys.stderr)
        return 128 + error.number
    return 0
