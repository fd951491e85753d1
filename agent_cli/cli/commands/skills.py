"""`agent skills`: list the skills found here, and check the format of a skill."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.setup import Setup
from agent_cli.bootstrap.skills import skill_library
from agent_cli.extensions.skills.check import Violation, check_skill, skill_files
from agent_cli.extensions.skills.find import FoundSkills
from agent_cli.extensions.skills.skill import Skill
from agent_cli.protocol.paths import is_inside
from agent_cli.protocol.sanitize import visible
from agent_cli.tools.kit.base import ToolError
from agent_cli.ui.text.lines import one_line

from ..services.completion import completing
from ..services.extensions.skill_calls import skill_lines
from .sessions.output import print_json

skills = typer.Typer(help="List, show and check skills.", no_args_is_help=True)
_NONE = "There are no skills. Put one into .agents/skills or ~/.agents/skills; `agent help skills` explains it."
_Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@completing
def _names() -> Iterable[str]:
    return (skill.name for skill in skill_library(Setup()).now().skills)


@skills.command("list")
def list_skills(json: _Json = False) -> int:
    """List the skills of this project, of yours and of plug-ins, and what is wrong with files of skills."""
    setup = Setup()
    found, notes = skill_lines(setup)
    if json:
        print_json({"skills": found, "notes": notes})
        return 0
    width = max((len(skill.name) for skill in found), default=0)
    for skill in found:
        state = "" if skill.state == "on" else f" ({skill.state})"
        print(f"{skill.name:<{width}}  {skill.origin:<8}  {one_line(skill.about, 100)}{state}")
    if not found:
        print(_NONE)
    for note in notes:
        print(f"note: {visible(note)}")
    return 0


@skills.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="The skill.", autocompletion=_names)]) -> int:
    """Show one skill: where it comes from, and its text."""
    library = skill_library(Setup())
    found = library.now()
    skill = found.named(name) or next((each for each in found.off if each.name == name), None)
    if skill is None:
        raise UsageError(_unknown(name, found))
    try:
        call = library.call(skill)
    except ToolError as error:
        raise UsageError(str(error)) from error
    for key, value in _facts(skill, trusted=call.trusted).items():
        print(f"{key}: {visible(value)}")
    print(f"\n{visible(call.file.body).rstrip()}")
    return 0


@skills.command()
def check(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A skill, or a folder of skills; this project's without it."),
    ] = None,
    json: _Json = False,
) -> int:
    """Check skills against the rules of the Agent Skills format. The exit code is 1 where one is broken."""
    if path is not None and not os.path.exists(path):
        raise UsageError(f"{path}: there is no such file or folder")
    files, unusable = (skill_files(path), []) if path is not None else _of_project()
    if not files and not unusable and not json:
        print(f"There is no skill{f' in {path}' if path else ' of this project'}.")
        return 1 if path else 0
    broken = [*unusable, *(violation for file in files for violation in check_skill(file))]
    files += [Path(each.path) for each in unusable]
    if json:
        print_json({"checked": list(map(str, files)), "violations": broken})
    else:
        for violation in broken:
            print(visible(str(violation)))
        bad = len({violation.path for violation in broken})
        print(f"{len(files)} checked, {f'{bad} broken' if bad else 'all valid'}", file=sys.stderr)
    return 1 if broken else 0


def _of_project() -> tuple[list[Path], list[Violation]]:
    """Return the files of the project's skills, and those that cannot be used."""
    setup = Setup()
    found = skill_library(setup).now()
    skills = (*found.skills, *found.off)
    tops = [os.path.realpath(place.folder) for place in setup.skill_places() if place.origin == "project"]
    usable = {skill.path for skill in skills}
    left_out = {path: why for path, why in found.notes if path not in usable and is_inside(path, tops)}
    return (
        [Path(os.path.relpath(skill.path)) for skill in skills if skill.is_of_project],
        [Violation(os.path.relpath(path), None, why.removeprefix("it ")) for path, why in left_out.items()],
    )


def _facts(skill: Skill, *, trusted: bool) -> dict[str, str]:
    head = skill.head
    allowed = ", ".join(head.allowed_tools)
    facts = {
        "name": skill.name,
        "description": head.description,
        "when to use": head.when_to_use,
        "file": skill.path,
        "from": f"plug-in {skill.place.plugin}" if skill.place.plugin else skill.place.origin,
        "arguments": head.hint or " ".join(head.arguments),
        "called by": "the user only" if not head.is_for_model else "",
        "allowed tools": allowed
        if trusted or not allowed
        else f"{allowed} (not in force: the skill is not trusted)",
    }
    return {key: value for key, value in facts.items() if value}


def _unknown(name: str, found: FoundSkills) -> str:
    import difflib

    near = difflib.get_close_matches(name, [skill.name for skill in found.skills], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`agent skills list` lists them"
    return f"there is no skill {name!r}; {hint}"
