"""List of skills in the system prompt: every name, and as much of the descriptions as fits.

The list is fixed when a session begins. Later changes are reported with the next prompt.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from agent_cli.protocol.sanitize import visible
from agent_cli.tools.kit.output import first_of, result_tokens

from .find import FoundSkills
from .skill import Skill

SEARCHED_FROM = 150
"""Number of skills from which on only names are listed, and `find_skills` finds them."""
_SHARE = 0.01
"""Share of the context window for the list."""
_LEAST_TOKENS = 1_000
_LONGEST = 1_536
"""Maximum length of a description in the list, in characters."""
_SHORT = 60
_MOST_TOLD = 20
_HEADING = "# Skills"
_ABOUT = (
    "Instructions for particular tasks, each in a folder of its own. When a task fits one, call the tool `skill`"
    " with its name before you begin, and follow what it says. Skills:"
)
_NAMES_ONLY = (
    "Instructions for particular tasks, each in a folder of its own. Only their names are listed here: when a"
    " task may fit one, look with `find_skills`, then call the tool `skill` with its name, and follow what it"
    " says. Skills:"
)
_SENTENCE = re.compile(r"(.+?[.!?。！？])(?:\s|$)")


def for_model(found: FoundSkills) -> tuple[Skill, ...]:
    """Return the skills that the model may call."""
    return tuple(skill for skill in found.skills if skill.head.is_for_model)


def catalogue(skills: Sequence[Skill], window: int) -> str:
    """Return the part of the system prompt that lists skills; empty if there are none. `window` is in tokens."""
    if not skills:
        return ""
    if len(skills) >= SEARCHED_FROM:
        return f"{_HEADING}\n{_NAMES_ONLY}\n{', '.join(skill.name for skill in skills)}"
    room = max(_LEAST_TOKENS, int(window * _SHARE))
    texts = (f"{_HEADING}\n{_ABOUT}\n{_listed(skills, shorten)}" for shorten in _LEVELS)
    bare = "\n".join(f"- {skill.name}" for skill in skills)
    return next((text for text in texts if result_tokens(text) <= room), f"{_HEADING}\n{_ABOUT}\n{bare}")


def listed_names(system: str) -> tuple[str, ...] | None:
    """Return the names that a system prompt lists; None if it has no list."""
    _, heading, rest = system.partition(f"{_HEADING}\n")
    about, _, block = rest.partition("\n")
    if not heading or about not in (_ABOUT, _NAMES_ONLY):
        return None
    block = block.partition("\n\n")[0]
    if about == _NAMES_ONLY:
        return tuple(block.split(", "))
    return tuple(line.removeprefix("- ").partition(": ")[0] for line in block.split("\n"))


class SkillNews:
    """Changes to report to the model: skills added, removed or changed since its list was made."""

    def __init__(self, known: Sequence[str] | None, found: FoundSkills) -> None:
        """Create a tracker. `known` are the names in the system prompt; None if it has no list and needs none."""
        skills = for_model(found)
        self._stamps = {skill.name: skill.stamp for skill in skills}
        self._known = frozenset(self._stamps if known is None else known)
        self._was_told = False

    def facts(self, found: FoundSkills) -> Mapping[str, str]:
        """Return the changes as a line for the next prompt."""
        now = {skill.name: skill for skill in for_model(found)}
        new = [_described(now[name]) for name in sorted(now.keys() - self._known)]
        changed = [
            name for name in sorted(now.keys() & self._stamps.keys()) if now[name].stamp != self._stamps[name]
        ]
        gone = sorted(self._known - now.keys())
        parts = [
            f"{word} {first_of(names, _MOST_TOLD)}"
            for word, names in (("new:", new), ("changed:", changed), ("removed:", gone))
            if names
        ]
        if not parts and not self._was_told:
            return {}
        self._was_told = True
        return {"Skills": "; ".join(parts) or "as listed at the beginning"}


def _described(skill: Skill) -> str:
    about = _first_sentence(_about(skill))
    return f"{skill.name} ({about})" if about else skill.name


def _about(skill: Skill) -> str:
    return visible(skill.about)[:_LONGEST]


def _first_sentence(text: str) -> str:
    found = _SENTENCE.match(text)
    return found.group(1) if found else text


def _short(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1].rstrip()}…"


_LEVELS: tuple[Callable[[str], str], ...] = (str, _first_sentence, lambda text: _short(_first_sentence(text)))
"""Levels of shortening, applied to all descriptions alike until they fit."""


def _listed(skills: Sequence[Skill], shorten: Callable[[str], str]) -> str:
    return "\n".join(
        f"- {skill.name}: {text}" if (text := shorten(_about(skill))) else f"- {skill.name}" for skill in skills
    )
