"""Skills that the user calls as `/NAME` or `$NAME`, and their listings. A skill that comes with the project needs
approval once for each content, because its text is sent on the user's behalf."""

from collections.abc import Container, Iterator

from agent_cli.bootstrap.setup import Setup
from agent_cli.bootstrap.skills import skill_library
from agent_cli.extensions.skills.skill import Skill
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.records import storable_text
from agent_cli.tools.kit.base import ToolError
from agent_cli.ui.commands.registry import is_built_in, parse, skill_call
from agent_cli.ui.services import OwnCommand, OwnPrompt, SkillLine

from .custom_commands import usable_input

_PREFIX = "skill:"
"""Prefix of a skill whose name is also that of a command."""


def skill_prompt(setup: Setup, name: str, argument: str, session: str) -> OwnPrompt | None:
    """Return the prompt of a called skill; None if there is none of this name."""
    library = skill_library(setup)
    skill = library.now().named(name.removeprefix(_PREFIX))
    if skill is None:
        return None
    try:
        call = library.call(skill)
    except ToolError as error:
        return OwnPrompt("", skill.path, agreed=False, problem=str(error))
    brought = library.bring(call, argument, session, agreed=True)
    return OwnPrompt(
        call.file.text,
        skill.path,
        agreed=call.trusted,
        trust_place=skill.trust_place,
        input=UserInput(f"/{name} {argument}".strip(), brought=(brought,)),
    )


def called_skill(setup: Setup, line: str) -> UserInput | None:
    """Return the input for a line that calls a skill; None if no skill has this name.

    Raises:
        UsageError: the skill cannot be used, or comes with the project and is not approved.
    """
    called = skill_call(line) if line.startswith("$") else parse(line)
    prompt = skill_prompt(setup, *called, "") if called is not None else None
    return usable_input(prompt, called[0]) if called is not None and prompt is not None else None


def skill_commands(setup: Setup, taken: Container[str]) -> Iterator[OwnCommand]:
    """Yield the skills offered as completions; `taken` are the names of commands."""
    for skill in skill_library(setup).now().skills:
        if skill.head.is_offered:
            is_taken = skill.name in taken or is_built_in(skill.name)
            name = f"{_PREFIX}{skill.name}" if is_taken else skill.name
            yield OwnCommand(name, skill.head.description, skill.head.hint, skill.path, is_skill=True)


def skill_lines(setup: Setup) -> tuple[tuple[SkillLine, ...], tuple[str, ...]]:
    """Return all skills, disabled ones last, and the problems of skill files."""
    found = skill_library(setup).now()
    on = (_line(skill, _state(skill)) for skill in found.skills)
    off = (_line(skill, "off") for skill in found.off)
    return (*on, *off), tuple(storable_text(f"{path}: {why}") for path, why in found.notes)


def _line(skill: Skill, state: str) -> SkillLine:
    origin = f"plug-in {skill.place.plugin}" if skill.place.plugin else skill.place.origin
    return SkillLine(skill.name, skill.about, origin, storable_text(skill.path), state)


def _state(skill: Skill) -> str:
    if not skill.head.is_for_model:
        return "user only"
    return "on" if skill.head.is_offered else "model only"
