"""Build what the model is told beside the conversation: the system prompt of a new session, and with each prompt
what is new since, from instructions files, memory blocks and facts such as the date."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from agent_cli.protocol.messages import Message
from agent_cli.protocol.records import Header
from agent_cli.workspace.instructions import InstructionFiles
from agent_cli.workspace.memory import Memory

from .prompt_parts import REPLACED, PromptAdditions, SystemPrompt, make_additions, system_prompt


class PromptSources(msgspec.Struct, frozen=True, kw_only=True):
    """What the prompts of one session are made of."""

    root: Path
    extra_roots: Sequence[Path]
    instructions: InstructionFiles
    memory: Memory | None
    rules: tuple[str, ...] = ()
    """Sentences for the model."""
    replaced: str | None = None
    """The user's own system prompt, in place of ours; None where there is none."""
    append: str = ""
    answer_request: str = ""
    """How the answer is to look; goes along with the prompt, since the system prompt never changes."""


class PromptBuilder:
    """The system prompt and the additions to prompts of one session."""

    def __init__(self, sources: PromptSources) -> None:
        self._sources = sources
        self.facts: list[Callable[[], Mapping[str, str]]] = []
        """What else may be new at a prompt, by name, in one line each."""

    def for_subagent(self) -> None:
        """Leave out what is the parent's alone: the memory, and how the answer is to look."""
        self._sources = msgspec.structs.replace(self._sources, memory=None, answer_request="")

    def system(self, tools: Collection[str], skills: str = "") -> SystemPrompt:
        """Return the system prompt of a new session, for the tools that it has; `skills` lists those there are."""
        given = self._sources
        if given.replaced is not None:
            return SystemPrompt(f"{given.replaced.strip()}\n\n{given.append}".strip(), dict(REPLACED))
        rules = "\n".join(f"- {rule}" for rule in given.rules)
        return system_prompt(
            given.root,
            given.instructions.read(),
            tools,
            blocks=given.memory.given() if given.memory else (),
            extra_roots=given.extra_roots,
            append="\n\n".join(
                part for part in (skills, f"# Rules\n{rules}" if rules else "", given.append) if part
            ),
        )

    def additions(self, header: Header, earlier: Sequence[Message]) -> PromptAdditions:
        """Return what the next prompt brings along; `earlier` are the messages that are still sent."""
        given = self._sources
        new = make_additions(
            given.root,
            header.told,
            earlier,
            instructions=given.instructions.read(),
            blocks=given.memory.given() if given.memory else (),
            started_in=header.cwd,
            facts={name: fact for each in self.facts for name, fact in each().items()},
        )
        if not given.answer_request:
            return new
        return msgspec.structs.replace(new, text=f"{new.text}\n\n{given.answer_request}".strip())
