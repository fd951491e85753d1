"""What the model is told beside the conversation: the system prompt of a new session, and at each prompt what is
new since, out of the instructions files, the memory blocks and the facts of the moment."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_cli.config.call_rule_schema import ToolRule
from agent_cli.engine.context.prompt_parts import REPLACED, PromptAdditions, SystemPrompt, moment, system_prompt
from agent_cli.engine.tool_calls.call_rules import describe_rules
from agent_cli.protocol.messages import Message
from agent_cli.protocol.records import Header
from agent_cli.workspace.instructions import InstructionFiles
from agent_cli.workspace.memory import Memory

from .setup import Setup

if TYPE_CHECKING:
    from agent_cli.redaction.redactor import Redactor


class PromptBuilder:
    """The texts around one session."""

    def __init__(
        self, setup: Setup, session_id: str, may_read: Callable[[str], bool], redactor: "Redactor"
    ) -> None:
        self._setup = setup
        context = setup.config.context
        self._chain = InstructionFiles(
            setup.root, context.instructions, setup.config_dir, may_read, setup.is_doubtful
        )
        self.memory = Memory(setup.config_dir, setup.project_state(), setup.state / "notes" / session_id, redactor)

    def system(self, tools: Collection[str]) -> SystemPrompt:
        """The system prompt of a new session."""
        setup = self._setup
        append = setup.chosen.text("append_system_prompt") or ""
        if setup.system_prompt is not None:
            return SystemPrompt(f"{setup.system_prompt.strip()}\n\n{append}".strip(), dict(REPLACED))
        checked = describe_rules(rule for rule in setup.config.rules if isinstance(rule, ToolRule))
        said = (rule for rule in setup.config.rules if isinstance(rule, str))
        rules = "\n".join(f"- {rule}" for rule in (*said, *checked))
        parts = [part for part in (f"# Rules\n{rules}" if rules else "", append) if part]
        return system_prompt(
            setup.workspace.root,
            self._chain.read(),
            tools,
            blocks=self.memory.given(),
            extra_roots=setup.workspace.roots[1:],
            append="\n\n".join(parts),
        )

    def moment(self, header: Header, earlier: Sequence[Message]) -> PromptAdditions:
        """What the next prompt of a session brings along; `earlier` messages are those that are still sent."""
        new = moment(
            self._setup.workspace.root,
            header.told,
            earlier,
            instructions=self._chain.read(),
            blocks=self.memory.given(),
            started_in=header.cwd,
        )
        if request := self._setup.chosen.text("answer_request"):  # here, since the system prompt never changes
            return msgspec.structs.replace(new, text=f"{new.text}\n\n{request}".strip())
        return new
