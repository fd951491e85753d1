"""The skills of a session: where they are found, and what a call of a skill returns."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from agent_cli.config.layer import ConfigError
from agent_cli.extensions.skills.catalogue import SkillNews, catalogue, for_model, listed_names
from agent_cli.extensions.skills.find import FoundSkills, SkillCache, find_skills, is_within_bounds, read_skill
from agent_cli.extensions.skills.skill import Skill, SkillText
from agent_cli.extensions.skills.skill_tool import skill_tools
from agent_cli.protocol.messages import Message
from agent_cli.protocol.operations import AttachedText
from agent_cli.protocol.records import Header
from agent_cli.tools.kit.base import Tool, ToolError

from .setup import Setup

_FRESH_S = 1.0
"""Seconds for which the skills found at the start are reused: the first prompt of a new session needs no second
scan."""

Facts = Callable[[], Mapping[str, str]]


class SkillCall(msgspec.Struct, frozen=True):
    """A skill about to be called."""

    skill: Skill
    file: SkillText
    trusted: bool
    """True if the user wrote the skill, or approved its present form."""


class SkillLibrary:
    """The available skills, scanned on each access."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._cache = SkillCache(setup.state / "cache" / "skills.msgpack")
        self._lock = threading.Lock()
        self.count = 0
        """Number of skills at the last scan."""
        self._began = time.monotonic()

    def now(self) -> FoundSkills:
        """Return the current skills. Of skills that may contain text from others, only the names are given."""
        with self._lock:
            found = find_skills(self._setup.skill_places(), self._cache, self._setup.config.skills.disabled)
        self.count = len(found.skills)
        if not self._has_doubts():
            return found
        return msgspec.structs.replace(found, skills=tuple(map(self._without_doubtful_words, found.skills)))

    @cached_property
    def _at_start(self) -> FoundSkills:
        """The skills at the first scan."""
        return self.now()

    def call(self, skill: Skill) -> SkillCall:
        """Read a skill in order to call it.

        Raises:
            ToolError: it cannot be used.
        """
        if changed := self._setup.changed_plugin(skill.place):
            raise ToolError(f"The skill {skill.name} cannot be used: {changed}.")
        file = read_skill(skill)
        if file.head.problem:
            raise ToolError(f"The skill {skill.name} cannot be used: {skill.path}: {file.head.problem}.")
        own = not self._setup.is_of_project(skill.place, skill.path) and not self._is_doubtful(skill)
        return SkillCall(skill, file, own or self._is_agreed(skill, file))

    def bring(self, call: SkillCall, argument: str, session: str, *, agreed: bool = False) -> AttachedText:
        """Return the text that a call brings; `agreed` means that the user is asked to approve it first."""
        from agent_cli.extensions.skills.activation import SkillContext, skill_content

        setting = SkillContext(str(self._setup.workspace.root), session)
        trusted = call.trusted or agreed
        doubtful = not trusted and self._is_doubtful(call.skill)
        return skill_content(call.skill, call.file, argument, setting, trusted=trusted, doubtful=doubtful)

    def tools(self, session: str, visible: Callable[[], Sequence[Message]]) -> tuple[Tool, ...]:
        """Return the skill tools; none if there is no skill that the model may call."""
        found = self._at_start
        if not for_model(found):
            return ()
        return skill_tools(
            found, self.now, lambda skill, argument: self.bring(self.call(skill), argument, session), visible
        )

    def catalogue(self, window: int) -> str:
        """Return the list of skills for the system prompt."""
        return catalogue(for_model(self._at_start), window)

    def news(self, header: Header) -> Facts:
        """Return a function that reports changes since the system prompt was made; a prompt replaced by the user
        lists no skills."""
        known = None if "*" in header.told else listed_names(header.system) or ()
        news = SkillNews(known, self._at_start)
        fresh = [self._at_start] if time.monotonic() - self._began < _FRESH_S else []
        return lambda: news.facts(fresh.pop() if fresh else self.now())

    def readable(self) -> tuple[Path, ...]:
        """Return the folders whose skill files can be read without approval."""
        places = filter(is_within_bounds, self._setup.skill_places())
        folders = [os.path.realpath(place.folder) for place in places]
        inside = tuple(f"{folder}/" for folder in folders)
        linked = (
            skill.folder
            for skill in self._at_start.skills
            if not skill.path.startswith(inside) and not skill.is_of_project
        )
        return tuple(map(Path, [*folders, *linked]))

    def _has_doubts(self) -> bool:
        try:
            return self._setup.trust.has_doubts()
        except ConfigError:
            return True

    def _without_doubtful_words(self, skill: Skill) -> Skill:
        if not self._is_doubtful(skill):
            return skill
        head = msgspec.structs.replace(skill.head, description="", when_to_use="", hint="")
        return msgspec.structs.replace(skill, head=head)

    def _is_doubtful(self, skill: Skill) -> bool:
        return self._setup.is_doubtful(os.path.realpath(skill.path))

    def _is_agreed(self, skill: Skill, file: SkillText) -> bool:
        try:
            return self._setup.trust.knows(skill.trust_place, file.content)
        except ConfigError:
            return False


def skill_library(setup: Setup) -> SkillLibrary:
    """Return the skill library of a setup."""
    return setup.once(SkillLibrary)
