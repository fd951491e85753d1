"""Where skills are looked for. What reads them is loaded only where there are such folders."""

from functools import partial
from typing import TYPE_CHECKING

from agent_cli.config.dirs import home_dir
from agent_cli.extensions.places import Place, places

from .setup import Setup

if TYPE_CHECKING:
    from .skills import SkillLibrary

SKILL_FILE = "SKILL.md"
"""The name of a skill's file; later conversations are given it as instructions."""


def skill_places(setup: Setup) -> tuple[Place, ...]:
    """Return the folders of skills, the strongest first."""
    return places("skills", root=setup.workspace.root, home=home_dir(), config_dir=setup.config_dir)


def skill_library(setup: Setup) -> "SkillLibrary | None":
    """Return the skills; None where there is no folder of them, or the configuration switches them off."""
    return setup.once(_library) if setup.config.skills.enabled and skill_places(setup) else None


def _library(setup: Setup) -> "SkillLibrary":
    from .skills import SkillLibrary

    return SkillLibrary(setup, partial(skill_places, setup))
