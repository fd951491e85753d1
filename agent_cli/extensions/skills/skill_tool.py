"""Tools `skill` and `find_skills`: give the model the instructions of a skill on request."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec

from agent_cli.protocol.actions import Action, ReadPath
from agent_cli.protocol.messages import Message, ResultKind
from agent_cli.protocol.operations import AttachedText
from agent_cli.protocol.sanitize import visible
from agent_cli.tools.kit.base import BasicTool, Tool, ToolContext, ToolError, ToolOutcome
from agent_cli.tools.kit.output import counted, result_tokens

from .catalogue import SEARCHED_FROM, for_model
from .find import FoundSkills
from .skill import TOOL_NAME, Skill

_FOUND = 8
_MOST_FOUND = 20
_DESCRIPTION_CHARS = 1_536

Bring = Callable[[Skill, str], AttachedText]
"""Returns the content that a skill call with some arguments adds.

Raises:
    ToolError: the skill cannot be used.
"""


def skill_tools(
    listed: FoundSkills,
    now: Callable[[], FoundSkills],
    bring: Bring,
    visible_messages: Callable[[], Sequence[Message]],
) -> tuple[Tool, ...]:
    """Return the skill tools of a session that begins with the skills `listed`; `now` returns the current ones."""
    tool = SkillTool(now, bring, visible_messages)
    return (tool, FindSkills(now)) if len(for_model(listed)) >= SEARCHED_FROM else (tool,)


class SkillParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `skill`."""

    name: Annotated[str, msgspec.Meta(description="Of the skill, as it is listed")]
    arguments: Annotated[str, msgspec.Meta(description="What the skill is to work on, if it takes arguments")] = ""


class SkillTool(BasicTool):
    """Returns the text of a skill."""

    name = TOOL_NAME
    label = "Skill"
    description = (
        "Get the instructions of a skill, then follow them. Call it before you begin a task that a skill is for."
        " The result names the files in the skill's folder; read those that the instructions ask for."
    )
    Params = SkillParams
    result_kind: ResultKind = "summary"

    def __init__(
        self, now: Callable[[], FoundSkills], bring: Bring, visible_messages: Callable[[], Sequence[Message]]
    ) -> None:
        """Create the tool. `visible_messages` returns the messages sent to the model."""
        self._now = now
        self._bring = bring
        self._visible_messages = visible_messages

    def title(self, params: SkillParams) -> str:
        return f"{params.name} {params.arguments}".strip()

    def actions(self, params: SkillParams, context: ToolContext) -> tuple[Action, ...]:
        skill = self._now().named(_plain(params.name))
        return (ReadPath(os.path.realpath(skill.path), skill.path),) if skill is not None else ()

    async def run(self, params: SkillParams, context: ToolContext) -> ToolOutcome:
        from .activation import is_given

        skill = await asyncio.to_thread(self._skill, params.name)
        brought = await asyncio.to_thread(self._bring, skill, params.arguments.strip())
        if not brought.insertions and is_given(brought.text, self._visible_messages()):
            text = f"The skill {skill.name} is in this conversation already, unchanged: follow it."
            return ToolOutcome(text=text, display="already given")
        text = brought.text
        if context.insert is not None and (brought.insertions or brought.allowed):
            text = await context.insert(text, brought.insertions, brought.allowed)
        elif brought.insertions:
            commands = counted(len(brought.insertions), "command")
            text += f"\n[{commands} in it, marked with !, could not be run here; run what you need yourself]"
        return ToolOutcome(text=text, display=f"{result_tokens(text)} tokens", untrusted=brought.source)

    def _skill(self, name: str) -> Skill:
        found = self._now()
        skill = found.named(_plain(name))
        if skill is None:
            raise ToolError(_unknown(name, found))
        if not skill.head.is_for_model:
            raise ToolError(
                f"Only the user calls the skill {skill.name}, as /{skill.name}. Say so if it would help, and go on"
                " without it."
            )
        return skill


class FindParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `find_skills`."""

    query: Annotated[str, msgspec.Meta(description="What the task is about")]
    limit: Annotated[int, msgspec.Meta(description="8 unless given", ge=1, le=_MOST_FOUND)] = _FOUND


class FindSkills(BasicTool):
    """Finds skills by purpose."""

    name = "find_skills"
    label = "Find skills"
    description = (
        "Find skills by what they are for. The result holds their names and descriptions; the tool skill gives the"
        " instructions of one."
    )
    Params = FindParams
    result_kind: ResultKind = "summary"

    def __init__(self, now: Callable[[], FoundSkills]) -> None:
        self._now = now

    def title(self, params: FindParams) -> str:
        return params.query

    async def run(self, params: FindParams, context: ToolContext) -> ToolOutcome:
        skills = for_model(await asyncio.to_thread(self._now))
        names = await asyncio.to_thread(_matching, skills, params)
        if not names:
            return ToolOutcome(text=f"None of {len(skills)} skills fits. Try other words for the task.")
        by_name = {skill.name: skill for skill in skills}
        text = "\n".join(f"- {name}: {visible(by_name[name].about)[:_DESCRIPTION_CHARS]}" for name in names)
        return ToolOutcome(text=text, display=", ".join(names))


def _matching(skills: Sequence[Skill], params: FindParams) -> list[str]:
    from agent_cli.tools.ranking.search_index import Document, SearchIndex

    documents = (Document(skill.name, skill.name, skill.about, skill.place.plugin) for skill in skills)
    return SearchIndex(documents).find(params.query, params.limit)


def _plain(name: str) -> str:
    """Normalize the name of a skill in a call, which models also write in the user's form."""
    return name.strip().lstrip("/$").removeprefix("skill:").lower()


def _unknown(name: str, found: FoundSkills) -> str:
    import difflib

    names = [skill.name for skill in for_model(found)]
    near = difflib.get_close_matches(_plain(name), names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"There is no skill named {name!r}.{hint}"
