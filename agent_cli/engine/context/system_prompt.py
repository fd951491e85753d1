"""Build what the model is sent besides the conversation: the system prompt of a new session and, with each prompt,
changes in instruction files, memory blocks and facts such as the date."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from agent_cli.protocol.messages import Message
from agent_cli.protocol.records import Header
from agent_cli.workspace.instructions import InstructionFiles
from agent_cli.workspace.memory import Memory

from .prompt_parts import REPLACED, PromptAdditions, SystemPrompt, make_additions, system_prompt


class PromptSources(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs for the prompts of one session."""

    root: Path
    extra_roots: Sequence[Path]
    instructions: InstructionFiles
    memory: Memory | None
    rules: tuple[str, ...] = ()
    """Sentences for the model."""
    replaced: str | None = None
    """The user's own system prompt, which replaces the built-in one; None if there is none."""
    append: str = ""
    answer_request: str = ""
    """Required form of the answer. Sent with the prompt, since the system prompt never changes."""


class PromptBuilder:
    """Builds the system prompt and the additions to prompts of one session."""

    def __init__(self, sources: PromptSources) -> None:
        self._sources = sources
        self.facts: list[Callable[[], Mapping[str, str]]] = []
        """Sources of further facts: name → one line each."""

    def for_subagent(self) -> None:
        """Leave out the parts that only apply to the parent: the memory, and the form of the answer."""
        self._sources = msgspec.structs.replace(self._sources, memory=None, answer_request="")

    def system(self, tools: Collection[str], skills: str = "") -> SystemPrompt:
        """Return the system prompt of a new session with the given tools; `skills` lists the available skills."""
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
        """Return the additions to the next prompt; `earlier` are the messages that are still sent."""
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
