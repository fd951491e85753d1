"""Find the skills of the project, the user and plug-ins, and give each a name of its own.

Of several with one name the strongest has it, and the others stay callable by longer names: no skill disappears.
"""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from ..places import Place
from .scan import FoundFile, SkillCache
from .skill import Skill, callable_name


class FoundSkills(msgspec.Struct, frozen=True):
    """The skills there are."""

    skills: tuple[Skill, ...] = ()
    """By name."""
    off: tuple[Skill, ...] = ()
    """Those that the configuration switches off."""
    notes: tuple[tuple[str, str], ...] = ()
    """Files that are left out, or in which something is wrong, each with the reason."""

    def named(self, name: str) -> Skill | None:
        """Return the skill that is called by a name."""
        return next((skill for skill in self.skills if skill.name == name), None)


def find_skills(places: Sequence[Place], cache: SkillCache, disabled: Collection[str] = ()) -> FoundSkills:
    """Return the skills of some places, the strongest first. A folder that several ways lead to counts once.

    Args:
        places: as `places.places` gives them.
        cache: what is known of them from before; it is brought up to date.
        disabled: names of skills that are switched off.
    """
    notes: list[tuple[str, str]] = []
    skills: dict[str, Skill] = {}
    seen: set[str] = set()
    for place in places:
        for file in cache.files(place, notes):
            if file.path not in seen:
                seen.add(file.path)
                name = next(name for name in _names(file, place) if name not in skills)
                skills[name] = Skill(name, file.path, place, file.head, file.stamp)
                notes += [(file.path, note) for note in file.head.notes]
                if name != file.head.name and not place.plugin:
                    notes.append((file.path, f"another skill is named {file.head.name}; this one is {name}"))
    cache.save()
    found = [skills[name] for name in sorted(skills)]
    off = tuple(skill for skill in found if not {skill.name, skill.path}.isdisjoint(disabled))
    usable = tuple(skill for skill in found if skill not in off) if off else tuple(found)
    return FoundSkills(usable, off, tuple(notes))


def _names(file: FoundFile, place: Place) -> Iterator[str]:
    """Yield what a skill may be called, by preference."""
    name = file.head.name
    if place.plugin:
        yield f"{place.plugin}:{name}"
    else:
        yield name
    if place.origin == "user":
        yield f"user:{name}"
    yield f"{place.product}:{name}"
    if group := callable_name(file.group):
        yield f"{group}:{name}"
    yield f"{place.origin}:{place.product}:{name}"
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1
