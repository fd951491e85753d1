"""Services for an editor's session beyond the engine: slash commands, models, and events as text."""

import os
from collections.abc import Iterator, Sequence

from agent_cli.bootstrap.options import ParsedOptions
from agent_cli.bootstrap.session_builder import INTERACTIVE
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.api_keys import keyed
from agent_cli.model.routing import choose_default, resolve
from agent_cli.protocol.client import Client
from agent_cli.protocol.events import AnyEvent, Compacted
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import ChangeSettings, Operation
from agent_cli.protocol.records import header_of
from agent_cli.protocol.usage import EFFORTS
from agent_cli.serve.acp import host as acp_host
from agent_cli.serve.acp.host import CommandFront, SlashCommand
from agent_cli.serve.sessions.host import HostError, OpenedSession
from agent_cli.store.session_file import read_session
from agent_cli.ui.commands import registry
from agent_cli.ui.commands.api import Choice, CommandContext, ExitReason, KeyGroup
from agent_cli.ui.commands.settings import confirms_yolo
from agent_cli.ui.render import notices
from agent_cli.ui.services import FrontEndServices
from agent_cli.ui.text.hints import with_advice
from agent_cli.ui.text.theme import NONE, Theme

from ...services import repl_services
from .host import Opened, SessionHost, host_errors

_COLUMNS = 100
_MOST_MODELS = 100
_OF_THE_EDITOR = frozenset(
    "help model mode effort queue more copy search sessions resume fork new add-dir theme keys quit".split()
)
"""Commands for which an editor has an equivalent; typed, they say so or still work."""
_NOT_HERE = "Your editor has that: open, list and close conversations there."


class EditorHost(SessionHost, acp_host.EditorHost):
    """Opens sessions for an editor."""

    def __init__(self, chosen: ParsedOptions) -> None:
        """`chosen` are options for every session."""
        super().__init__(chosen, INTERACTIVE)

    def services(self, opened: OpenedSession) -> "Services":
        assert isinstance(opened, Opened)
        return Services(opened)

    def folder_of(self, session_id: str) -> str:
        with host_errors():
            header = header_of(read_session(Setup(self._chosen).sessions.find(session_id)).records)
        if header.session_id != session_id:
            raise HostError(f"there is no session {session_id!r}")
        return header.cwd

    def picture(self, data: bytes) -> Image:
        from agent_cli.tools.files.images import PictureError, fit

        try:
            return fit(data).image
        except PictureError as error:
            raise HostError(str(error)) from error

    async def check_login(self) -> None:
        setup = Setup(self._chosen)
        env = keyed(os.environ, setup.config_dir)
        with host_errors():
            name = setup.config.model or await choose_default(setup.config, env)
            resolve(name, setup.config.providers, env)


class Services(acp_host.EditorServices):
    """Services of a session."""

    efforts: Sequence[str] = EFFORTS

    def __init__(self, opened: Opened) -> None:
        """Use an open session."""
        self._opened = opened
        self._host = repl_services.SessionHost(opened.setup, opened.built)

    def commands(self) -> Sequence[SlashCommand]:
        own = [
            SlashCommand(each.name, each.description or each.place, each.hint)
            for each in self._host.own_commands()
            if each.name and not registry.problem_of(each)
        ]
        built_in = [
            SlashCommand(each.name, each.help, each.arguments)
            for each in registry.TABLE.values()
            if each.name not in _OF_THE_EDITOR
        ]
        return [*own, *built_in]

    async def run_command(self, line: str, front: CommandFront) -> bool:
        called = registry.parse(line)
        if called is None:
            called = registry.skill_call(line) if line.startswith("$") else None
            if called is None or self._host.own_prompt(*called) is None:
                return False
        elif "." in called[0] and not registry.is_own(called[0], self._host.own_commands()):
            return False  # a file, as in `/index.html is blank`
        await registry.run(_Context(self._opened.client, self._host, front), *called)
        return True

    def models(self) -> Sequence[str]:
        found = [line.name for line in self._host.models("") if line.has_key]
        return found[:_MOST_MODELS]

    def with_advice(self, event: AnyEvent) -> AnyEvent:
        return with_advice(event, "repl", self._opened.client.snapshot())

    def describe_event(self, event: AnyEvent) -> str:
        if isinstance(event, Compacted):
            from agent_cli.ui.render.tool_results import render_compaction

            return "\n".join(render_compaction(event, _COLUMNS, "")[0])
        rows = notices.render_notice(event, NONE, _COLUMNS) if isinstance(event, notices.Plain) else []
        return "\n".join(rows)


class _Context(CommandContext):
    """The context of a slash command whose output an editor shows."""

    theme: Theme = NONE
    keys: tuple[KeyGroup, ...] = ()
    columns = _COLUMNS

    def __init__(self, client: Client, host: FrontEndServices, front: CommandFront) -> None:
        self.client, self.host = client, host
        self._front = front

    async def submit(self, operation: Operation) -> None:
        if isinstance(operation, ChangeSettings) and operation.mode == "yolo" and not await confirms_yolo(self):
            return
        await self._front.submit(operation)

    def say(self, text: str, wrap: bool = True) -> None:
        """Show a text. Several lines are fenced: they are a table or a list, which an editor must not
        reflow."""
        self._front.say(f"```\n{text}\n```\n" if "\n" in text.strip() else f"{text}\n")

    def prefill(self, text: str, note: str) -> None:
        self.say(f"Send this to change it:\n{text}")

    def summary(self) -> str:
        return ""

    def expand(self) -> None:
        self.say("Nothing was shortened here.")

    def show_turns(self, turns: Iterator[Sequence[AnyEvent]], count: int) -> None:
        self.say(f"It has {count} turns; `agent sessions show` prints them.")

    async def pick(self, title: str, choices: Sequence[Choice]) -> str:
        labels = [(each.value, " · ".join(filter(None, (each.label, each.detail)))) for each in choices]
        return await self._front.pick(title, labels) if labels else ""

    def use_theme(self, theme: Theme) -> None:
        """Do nothing: the editor chooses the colours."""

    def to_clipboard(self, text: str) -> bool:
        return False

    def exit_repl(self, leaving: ExitReason) -> None:
        self.say(_NOT_HERE)
