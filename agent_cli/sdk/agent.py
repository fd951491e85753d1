"""The agent as an object: an async context manager over one session.

async with Agent(cwd="~/shop") as agent:
    print((await agent.run("Why does test_parser fail? Fix it.")).text)
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from agent_cli.protocol.events import AnyEvent, OperationFailed, Restored, RestoreReport
from agent_cli.protocol.operations import Redo, Undo, UserInput
from agent_cli.protocol.run_outcome import RunOutcome

from .opening import answers_of, open_engine, session_file
from .option_checks import checked
from .options import AgentError, AgentOptions
from .result import Result, result_of
from .session import Session, to_its_end

if TYPE_CHECKING:
    from agent_cli.bootstrap.session_builder import OpenSession
    from agent_cli.ui.headless.partial_output import PartialAnswer, PartialOutput

    from .output import Shape


class Agent:
    """A session in this process: no port, no child process for the engine.

    Use it as an async context manager; leaving the block ends and saves the session. Several agents may run at the
    same time. Prompts of one agent run one after another.

    Raises:
        AgentError: an option is unknown, or options exclude each other.
    """

    def __init__(self, **options: Unpack[AgentOptions]) -> None:
        """See `AgentOptions` for the options."""
        self._options = checked(options)
        self._opened: OpenSession | None = None
        self._session: Session | None = None
        self._running = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._result: Result | None = None

    async def __aenter__(self) -> Self:
        """Open the session.

        Raises:
            AgentError: it cannot be opened, or no model can be used.
        """
        if self._opened is not None:
            raise AgentError("an agent is opened once; make another one")
        self._opened = await open_engine(self._options)
        session = Session(self._opened.agent, answers_of(self._options))
        self._running.push_async_callback(session.aclose)  # last: prompts that still run see how they end
        await self._running.enter_async_context(self._opened.running())
        self._running.push_async_callback(session.end_work)
        self._session, self._loop = session, asyncio.get_running_loop()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop running work, save and end the session. Prompts of other tasks end with it."""
        self._session = None
        await to_its_end(self._running.aclose())

    @property
    def session_id(self) -> str:
        """The id of the session, for `resume` and `fork`."""
        return self._live().client.snapshot().session_id

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the session, such as files that cannot be used."""
        return self._opened.notes if self._opened is not None else ()

    @property
    def result(self) -> Result:
        """The result of the last prompt.

        Raises:
            AgentError: no prompt has ended yet.
        """
        if self._result is None:
            raise AgentError("no prompt has ended yet")
        return self._result

    async def run(self, prompt: str, *, images: Sequence[str | Path] = (), output: Any = None) -> Result:
        """Run a prompt and return its result, however it ends. Cancelling the awaiting task interrupts the turn.

        Args:
            prompt: what to do.
            images: image files to send with the prompt.
            output: the type of the answer (a msgspec Struct, a dataclass, …) or its JSON Schema; `data` of the
            result is then a value of this type. An answer that does not fit is corrected once; after that the exit
            code is 8 and `data` is None.

        Raises:
            AgentError: the agent is not open, an image cannot be read, or there is no schema for `output`.
        """
        async with aclosing(self.stream(prompt, images=images, output=output)) as events:
            async for _ in events:
                pass
        return self.result

    async def stream(
        self, prompt: str, *, images: Sequence[str | Path] = (), output: Any = None
    ) -> AsyncGenerator["AnyEvent | PartialOutput", None]:
        """Run a prompt and yield its events; `result` is set afterwards. Leaving the loop early interrupts the
        turn. With `output`, `PartialOutput` events contain the answer so far.

        Raises:
            AgentError: as `run`.
        """
        session = self._live()
        shape = _shape(output)
        asked = _input(prompt, images, shape)
        async with session.alone(), session.time_limit(self._options.get("timeout")):
            now = session.client.snapshot()
            outcome = RunOutcome(now.totals, now.session_id)
            async with aclosing(_carried_out(session, asked, shape, outcome)) as events:
                async for event in events:
                    yield event
            self._result = result_of(outcome, session.client.snapshot().totals)

    async def undo(self, turns: int = 1) -> RestoreReport:
        """Undo the last turns: their messages and every file they changed.

        Raises:
            AgentError: there is nothing to undo, or it failed.
        """
        if not isinstance(turns, int) or turns < 1:
            raise AgentError(f"turns is a whole number of at least 1, not {turns!r}")
        return await self._restored(Undo(turns))

    async def redo(self) -> RestoreReport:
        """Revert the last undo.

        Raises:
            AgentError: there is nothing to redo, or it failed.
        """
        return await self._restored(Redo())

    def replay(self, session: str = "") -> Iterator[AnyEvent]:
        """Return the events of a session, oldest first: of this session so far, including events from before it
        was resumed, or of another one, given by a prefix of its id, its name or its file.

        Raises:
            AgentError: the agent is not open, or there is no such session.
        """
        turns: Iterator[Sequence[AnyEvent]] = self._turns_of(session) if session else self._live().client.replay()
        return chain.from_iterable(reversed(tuple(turns)))

    def _turns_of(self, session: str) -> Iterator[Sequence[AnyEvent]]:
        from agent_cli.bootstrap.agent_transcripts import agent_transcript
        from agent_cli.store.session_file import StoreError

        self._live()
        assert self._opened is not None
        try:
            path = session_file(self._options, session)
            return agent_transcript(path, self._opened.tools, self._opened.redactor).turns
        except StoreError as error:
            raise AgentError(str(error)) from error

    async def diff(self) -> str:
        """Return the changes of the session as a unified diff."""
        return await self._live().client.diff()

    async def _restored(self, operation: Undo | Redo) -> RestoreReport:
        session, report = self._live(), RestoreReport()
        async with session.alone():
            submission = await session.client.submit(operation)
            async with aclosing(session.events_of(submission)) as events:
                async for event in events:
                    match event:
                        case Restored():
                            report = event.report
                        case OperationFailed() if event.submission_id == submission:
                            raise AgentError(event.error.message)
        return report

    def _live(self) -> Session:
        if self._session is None:
            raise AgentError("the agent is not open: write `async with Agent(…) as agent:`")
        with suppress(RuntimeError):  # nothing runs: properties can be read from anywhere
            if asyncio.get_running_loop() is not self._loop:
                raise AgentError("the agent was opened in another event loop: use it there, or open one here")
        return self._session


def run(
    prompt: str, *, images: Sequence[str | Path] = (), output: Any = None, **options: Unpack[AgentOptions]
) -> Result:
    """Run one prompt and return its result, in a program without `async`. Options are those of `Agent`.

    Raises:
        AgentError: an option is wrong, the session cannot be opened, or the program is async.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_run(prompt, images, output, options))
    raise AgentError("run() is for programs without async; here, write `await agent.run(…)`")


async def _run(prompt: str, images: Sequence[str | Path], output: Any, options: AgentOptions) -> Result:
    async with Agent(**options) as agent:
        return await agent.run(prompt, images=images, output=output)


async def _carried_out(
    session: Session, asked: UserInput, shape: "Shape | None", outcome: RunOutcome
) -> AsyncGenerator["AnyEvent | PartialOutput", None]:
    """Yield the events of a prompt, and of its correction if the answer does not fit the schema."""
    partial = None
    if shape is not None:
        from agent_cli.ui.headless.partial_output import PartialAnswer

        partial = PartialAnswer()
    async with aclosing(_turn(session, asked, outcome, partial)) as events:
        async for event in events:
            yield event
    if shape is None or not outcome.completed or not outcome.needs_correction(shape.read):
        return
    async with aclosing(_turn(session, outcome.correction(asked.answer_schema), outcome, partial)) as events:
        async for event in events:
            yield event
    if outcome.completed and outcome.needs_correction(shape.read):
        outcome.failed("end_turn", session.advised(outcome.misfit()))


async def _turn(
    session: Session, asked: UserInput, outcome: RunOutcome, partial: "PartialAnswer | None"
) -> AsyncGenerator["AnyEvent | PartialOutput", None]:
    submission = await session.client.submit(asked)
    async with aclosing(session.events_of(submission)) as events:
        async for event in events:
            outcome.note(event, submission)
            yield event
            if partial is not None and (found := partial.note(event)):
                yield found


def _shape(output: Any) -> "Shape | None":
    if output is None:
        return None
    from .output import shape_of

    return shape_of(output)


def _input(prompt: str, images: Sequence[str | Path], shape: "Shape | None") -> UserInput:
    if not isinstance(prompt, str):
        raise AgentError(f"the prompt is a text, not of the type {type(prompt).__name__}")
    if not prompt.strip():
        raise AgentError("the prompt is empty")
    if isinstance(images, str | Path) or not all(isinstance(each, str | Path) for each in images):
        raise AgentError("images is a list of paths")
    text = f"{prompt}\n\n{shape.request}" if shape is not None else prompt
    schema = shape.definition if shape is not None else None
    if not images:
        return UserInput(text, answer_schema=schema)
    from agent_cli.tools.files.images import PictureError, read_image

    paths = [Path(os.path.expanduser(each)).absolute() for each in images]
    try:
        pictures = tuple(map(read_image, paths))
        return UserInput(text, pictures, image_paths=tuple(map(str, paths)), answer_schema=schema)
    except PictureError as error:
        raise AgentError(str(error)) from error
