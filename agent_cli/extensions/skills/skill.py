"""A skill: a folder with a file `SKILL.md` whose front matter says what it is for."""

import os

import msgspec

from ..places import Place

FILE_NAMES = ("SKILL.md", "skill.md")
LARGEST_BYTES = 1_000_000
TOOL_NAME = "skill"
"""Of the tool with which the model calls skills."""


class SkillHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the front matter of a skill says."""

    name: str = ""
    """As a command could be called; empty where there is none."""
    description: str = ""
    when_to_use: str = ""
    hint: str = ""
    """What to write behind its name."""
    arguments: tuple[str, ...] = ()
    """Names of its arguments, by position."""
    allowed_tools: tuple[str, ...] = ()
    """Calls that it wants allowed, in the words of other agents, such as `Bash(git *)`."""
    is_for_model: bool = True
    """False: only the user calls it (`disable-model-invocation`)."""
    is_offered: bool = True
    """False: completion does not offer it to the user (`user-invocable`)."""
    notes: tuple[str, ...] = ()
    """What is wrong with the file, and does not keep it from being used."""
    problem: str = ""
    """Why it cannot be used."""


class Skill(msgspec.Struct, frozen=True):
    """A skill that can be called."""

    name: str
    """By which it is called: its own, or behind what tells it from another of the same name, as `user:deploy`."""
    path: str
    """Of its file, without links."""
    place: Place
    head: SkillHead
    stamp: tuple[int, int, int]
    """Size, time and number of its file; others once it has changed."""

    @property
    def folder(self) -> str:
        """The folder it lies in, without links."""
        return os.path.dirname(self.path)

    @property
    def about(self) -> str:
        """What it does and when to use it."""
        return " ".join(filter(None, (self.head.description, self.head.when_to_use)))

    @property
    def is_of_project(self) -> bool:
        """Whether the project brought it, and not the user."""
        return self.place.origin == "project"

    @property
    def trust_place(self) -> str:
        """Under which the user's yes to its content is kept."""
        return f"{self.path}#skill"


class SkillText(msgspec.Struct, frozen=True):
    """A skill's file as it is now."""

    content: bytes
    body: str
    """Without its front matter."""
    head: SkillHead

    @property
    def text(self) -> str:
        """All of the file."""
        return self.content.decode("utf-8")
