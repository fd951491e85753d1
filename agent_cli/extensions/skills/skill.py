"""A skill: a folder with a file `SKILL.md` whose front matter describes its purpose."""

import os

import msgspec

from ..places import Place

FILE_NAMES = ("SKILL.md", "skill.md")
LARGEST_BYTES = 1_000_000
TOOL_NAME = "skill"
"""Name of the tool with which the model calls skills."""


class SkillHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """The front matter of a skill."""

    name: str = ""
    """In the form of a command name; empty if there is none."""
    description: str = ""
    when_to_use: str = ""
    hint: str = ""
    """Usage hint shown after its name."""
    arguments: tuple[str, ...] = ()
    """Names of its arguments, by position."""
    allowed_tools: tuple[str, ...] = ()
    """Calls it wants allowed, in the terms of other agents, such as `Bash(git *)`."""
    is_for_model: bool = True
    """False: only the user calls it (`disable-model-invocation`)."""
    is_offered: bool = True
    """False: completion does not offer it to the user (`user-invocable`)."""
    notes: tuple[str, ...] = ()
    """Defects of the file that do not make it unusable."""
    problem: str = ""
    """Why it cannot be used."""


class Skill(msgspec.Struct, frozen=True):
    """A skill that can be called."""

    name: str
    """The name by which it is called: its own, or with a prefix if another skill has that name, as in
    `user:deploy`."""
    path: str
    """Path of its file, without links."""
    place: Place
    head: SkillHead
    stamp: tuple[int, int, int]
    """Size, mtime in ns and inode of its file; they differ once it has changed."""

    @property
    def folder(self) -> str:
        """Its folder, without links."""
        return os.path.dirname(self.path)

    @property
    def about(self) -> str:
        """Description and when to use it."""
        return " ".join(filter(None, (self.head.description, self.head.when_to_use)))

    @property
    def is_of_project(self) -> bool:
        """True if it belongs to the project, not the user."""
        return self.place.origin == "project"

    @property
    def trust_place(self) -> str:
        """The place under which the user's consent to its content is stored."""
        return f"{self.path}#skill"


class SkillText(msgspec.Struct, frozen=True):
    """A skill's file in its current state."""

    content: bytes
    body: str
    """The text without front matter."""
    head: SkillHead

    @property
    def text(self) -> str:
        """The whole file."""
        return self.content.decode("utf-8")
