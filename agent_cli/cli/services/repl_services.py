"""Services of the REPL beyond the engine: lists, searches, exports, and the user's shell commands. Larger services
are in separate modules, imported on first use."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_cli.bootstrap.session_builder import OpenSession
from agent_cli.bootstrap.setup import Setup
from agent_cli.engine.context.prompt_parts import init_prompt
from agent_cli.fs.files import create_file
from agent_cli.protocol.agent_types import AgentType
from agent_cli.protocol.client import AgentTranscript, ServerStatus
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import AttachedText, UserInput
from agent_cli.protocol.usage import Totals
from agent_cli.store.file_names import id_in
from agent_cli.store.session_file import StoreError, read_session
from agent_cli.tools.kit.base import ToolError
from agent_cli.ui import services
from agent_cli.ui.text.lines import ago
from agent_cli.workspace.git.repository import current_branch

if TYPE_CHECKING:
    from .review.repl_review import ReplReviews
    from .typed_input import MemoryNotes


class SessionHost:
    """The services behind the slash commands of a session; see `ui.services.FrontEndServices`."""

    def __init__(self, setup: Setup, opened: OpenSession) -> None:
        self._setup = setup
        self._opened = opened
        self._notes: MemoryNotes | None = None
        self._reviews: ReplReviews | None = None

    def sessions(self) -> tuple[services.SessionLine, ...]:
        return tuple(
            services.SessionLine(
                info.id,
                info.title,
                ago(info.updated),
                info.cwd,
                info.turns,
                Totals(
                    requests=info.unpriced + (info.cost_usd is not None),
                    cost_usd=info.cost_usd,
                    unpriced=info.unpriced,
                ),
            )
            for info in self._setup.sessions.list(self._setup.root, limit=services.MOST_SESSIONS)
        )

    async def find_session(self, name: str) -> tuple[str, str]:
        try:
            path = await asyncio.to_thread(self._setup.sessions.find, name)
        except StoreError as error:
            return "", str(error)
        return id_in(path), ""

    async def search(self, query: str) -> tuple[services.SearchHit, ...]:
        hits = await asyncio.to_thread(self._setup.sessions.search, query, limit=services.MOST_FOUND)
        return tuple(
            services.SearchHit(
                hit.session.id,
                hit.session.title,
                ago(hit.time),
                "you" if hit.role == "you" else "agent",
                hit.snippet,
            )
            for hit in hits
        )

    async def traced(self) -> tuple[services.TracedTurn, ...] | str:
        now = self._opened.agent.snapshot()
        if not now.session_path:
            return "This session is not saved, so there is no record of its time."
        if not Path(now.session_path).exists():  # the file is created with the first prompt
            return ()
        from .listings.traces import traced_turns

        try:
            return await asyncio.to_thread(traced_turns, Path(now.session_path))
        except StoreError as error:
            return f"The session cannot be read: {error}"

    async def export(self, argument: str) -> str:
        now = self._opened.agent.snapshot()
        name = argument.strip() or f"{now.session_id}.md"
        if not now.session_path:
            return "Not exported: this session is not saved."
        if not Path(now.session_path).exists():  # the file is created with the first prompt
            return "There is nothing to export yet: this session has no prompt."
        try:
            return await asyncio.to_thread(self._written, Path(now.session_path), self._setup.root / name)
        except StoreError as error:
            return f"Not exported: {error}"

    def _written(self, session: Path, target: Path) -> str:
        """Write an export, never over an existing file; return a message about the result."""
        from agent_cli.store.child_sessions import agent_names
        from agent_cli.store.export.formats import ENDINGS, exported, masked

        format = ENDINGS.get(target.suffix.lower())
        if format is None:
            return f"Not exported: name a file that ends in {', '.join(ENDINGS)}."
        records = masked(read_session(session).records, self._opened.redactor)
        text = exported(records, format, agent_names(session))
        try:
            create_file(target, text.encode())
        except OSError as error:
            return f"Not exported: {target}: {error.strerror}."
        return f"Exported to {target}, with known secrets masked."

    def memory(self) -> tuple[services.MemoryLine, ...]:
        return tuple(
            services.MemoryLine(block.label, block.text, block.limit, block.read_only, block.path)
            for block in self._opened.memory.blocks()
        )

    def add_note(self, scope: Literal["project", "user"], text: str) -> str:
        return self._memory_notes().add(scope, text)

    def undo_note(self) -> str:
        return self._memory_notes().undo()

    def _memory_notes(self) -> "MemoryNotes":
        from .typed_input import MemoryNotes

        self._notes = self._notes or MemoryNotes(self._opened.memory)
        return self._notes

    def init_input(self, focus: str) -> UserInput:
        instructions = AttachedText("of /init", init_prompt(focus), kind="instructions")
        return UserInput(f"/init {focus}".strip(), brought=(instructions,))

    def permissions(self) -> tuple[services.RuleLine, ...]:
        saved = set(map(id, self._opened.permissions.grants()))
        return tuple(
            services.RuleLine(rule.effect, rule.text, rule.place, id(rule) in saved)
            for rule in self._opened.permissions.rules()
        )

    def models(self, query: str) -> tuple[services.ModelLine, ...]:
        from .listings.models import models

        return models(self._setup, query, self._opened.agent.snapshot().model)

    async def usual_models(self) -> tuple[services.ModelLine, ...]:
        from .listings.models import usual_models

        return await usual_models(self._setup, self._opened.agent.snapshot().model)

    def tools(self) -> tuple[services.ToolLine, ...]:
        from .listings.extensions import tools

        return tools(self._opened.tools)

    def servers(self) -> tuple[tuple[ServerStatus, ...], tuple[str, ...]]:
        if self._opened.servers is None:
            return (), ()
        return self._opened.servers.status(), self._opened.servers.notes

    async def change_server(self, name: str, change: Literal["restart", "on", "off"]) -> str:
        assert self._opened.servers is not None
        if change != "restart":
            problem = await self._opened.servers.turn(name, on=change == "on")
            return problem or f"{name} is {change} for this session."
        problem = await self._opened.servers.restart(name)
        return problem or f"{name} was restarted and is ready."

    def hooks(self) -> tuple[tuple[services.HookLine, ...], tuple[str, ...]]:
        if self._opened.hooks is None:
            return (), ()
        from .listings.extensions import hook_lines

        return hook_lines(self._opened.hooks), self._opened.hooks.notes

    def agent_types(self) -> tuple[AgentType, ...]:
        return tuple(self._opened.agents.types.values()) if self._opened.agents is not None else ()

    async def agent_diff(self, agent: str) -> str:
        from agent_cli.engine.subagents.isolation import diff_of

        if self._opened.agents is None:
            return ""
        try:
            return await diff_of(self._opened.agents.named(agent), self._opened.processes.run)
        except ToolError as error:
            return str(error)

    def agent_transcript(self, path: str) -> AgentTranscript:
        from agent_cli.bootstrap.agent_transcripts import agent_transcript

        return agent_transcript(Path(path), self._opened.tools, self._opened.redactor)

    def plugins(self) -> tuple[services.PluginLine, ...]:
        from agent_cli.bootstrap.plugins import installed_plugins

        from .listings.extensions import plugin_lines

        return plugin_lines(installed_plugins(self._setup))

    def turn_hook(self, name: str, *, on: bool) -> None:
        assert self._opened.hooks is not None
        off = self._opened.hooks.is_off
        off.discard(name) if on else off.add(name)

    def notify_turn_ended(self, text: str) -> None:
        self._opened.agent.notify_turn_ended(text)

    def config(self) -> tuple[services.ConfigLine, ...]:
        from .listings.settings import config

        return config(self._setup, self._opened.redactor)

    def branch(self) -> str:
        return current_branch(self._setup.root)

    async def doctor(self, width: int) -> AsyncGenerator[str, None]:
        from .doctor.checks import findings, shown, summary

        failed = 0
        async with aclosing(findings(self._setup)) as found:
            async for finding in found:
                failed += finding.verdict == "FAIL"
                for row in shown(finding, width):
                    yield row
        yield summary(failed)

    def review(self, argument: str) -> AsyncGenerator[str, None]:
        from .review.repl_review import ReplReviews

        self._reviews = self._reviews or ReplReviews(self._setup, self._opened)
        return self._reviews.lines(argument)

    def own_commands(self) -> tuple[services.OwnCommand, ...]:
        from .extensions.custom_commands import own_commands, server_commands

        documents = self._opened.documents
        own = (*own_commands(self._setup), *(server_commands(documents) if documents else ()))
        if not self._has_skills():
            return own
        from .extensions.skill_calls import skill_commands

        return (*own, *skill_commands(self._setup, {each.name for each in own if not each.problem}))

    def own_prompt(self, name: str, argument: str) -> services.OwnPrompt | None:
        from .extensions.custom_commands import own_prompt

        found = own_prompt(self._setup, name, argument)
        if found is not None or not self._has_skills():
            return found
        from .extensions.skill_calls import skill_prompt

        return skill_prompt(self._setup, name, argument, self._opened.agent.snapshot().session_id)

    def skills(self) -> tuple[tuple[services.SkillLine, ...], tuple[str, ...]]:
        if not self._has_skills():
            return (), ()
        from .extensions.skill_calls import skill_lines

        return skill_lines(self._setup)

    def _has_skills(self) -> bool:
        return bool(self._setup.skill_places())

    async def server_prompt(self, name: str, words: Sequence[str]) -> services.OwnPrompt | None:
        from .extensions.custom_commands import server_prompt

        documents = self._opened.documents
        return await server_prompt(self._setup, documents, name, words) if documents else None

    def agree(self, prompt: services.OwnPrompt) -> None:
        from .extensions.custom_commands import agree

        agree(self._setup, prompt)

    async def copy(self, text: str) -> str:
        from .clipboard import copy_text

        return await copy_text(self._opened.processes, text, self._setup.workspace.roots)

    async def bug(self, facts: Mapping[str, str]) -> str:
        from .bug_report import running, write_report

        opened = self._opened
        now = running(opened.agent.snapshot())
        try:
            return await write_report(self._setup, opened.processes, opened.redactor, now, facts)
        except (OSError, StoreError) as error:
            return f"No report was written: {error}"

    async def picture(self) -> Image | str:
        from .clipboard import NoPicture, clipboard_image

        try:
            return await clipboard_image(self._opened.processes, self._setup.workspace.roots)
        except NoPicture as error:
            return str(error)

    def paths(self, root: str) -> Iterable[str]:
        from agent_cli.workspace.path_listing import offered

        documents = self._opened.documents
        return chain(documents.resources() if documents else (), offered(root))

    def paths_in(self, root: str, folder: str, begun: str) -> Iterable[str]:
        from agent_cli.workspace.path_listing import offered_in

        return offered_in(root, folder, begun)

    async def run_command(
        self, command: str, emit: Callable[[str], None], background: asyncio.Event | None = None
    ) -> services.CommandEnd:
        from .typed_input import run_own_command

        return await run_own_command(command, self._opened, emit, background)
