"""Find the skills of the project, the user and plug-ins, and give each a unique name.

Of several with one name the one with the highest precedence keeps it, and the others remain callable by longer
names: no skill disappears.
"""

from collections.abc import Collection, Sequence

import msgspec

from ..names import unique_name
from ..places import Place
from .scan import SkillCache
from .skill import Skill


class FoundSkills(msgspec.Struct, frozen=True):
    """The skills found."""

    skills: tuple[Skill, ...] = ()
    """Sorted by name."""
    off: tuple[Skill, ...] = ()
    """Skills that the configuration switches off."""
    notes: tuple[tuple[str, str], ...] = ()
    """Files that are left out, or in which something is wrong, each with the reason."""

    def named(self, name: str) -> Skill | None:
        """Return the skill of a name."""
        return next((skill for skill in self.skills if skill.name == name), None)


def find_skills(places: Sequence[Place], cache: SkillCache, disabled: Collection[str] = ()) -> FoundSkills:
    """Return the skills of some places, in order of precedence. A folder reached in several ways counts once.

    Args:
        places: from `places.places`.
        cache: data from earlier scans; it is updated.
        disabled: names of skills that are switched off.
    """
    notes: list[tuple[str, str]] = []
    skills: dict[str, Skill] = {}
    seen: set[str] = set()
    for place in places:
        for file in cache.files(place, notes):
            if file.path not in seen:
                seen.add(file.path)
                name = unique_name(file.head.name, place, skills.__contains__)
                skills[name] = Skill(name, file.path, place, file.head, file.stamp)
                notes += [(file.path, note) for note in file.head.notes]
                if name != file.head.name and not place.plugin:
                    notes.append((file.path, f"another skill is named {file.head.name}; this one is {name}"))
    cache.save()
    found = [skills[name] for name in sorted(skills)]
    off = tuple(skill for skill in found if not {skill.name, skill.path}.isdisjoint(disabled))
    usable = tuple(skill for skill in found if skill not in off) if off else tuple(found)
    return FoundSkills(usable, off, tuple(notes))
