"""Skills on disk."""

import os
import time
from pathlib import Path

from agent_cli.extensions.places import places
from agent_cli.extensions.skills.find import FoundSkills, SkillCache, find_skills


def write_skill(
    folder: Path, body: str = "Do it.", *, description: str = "Does a thing.", old: bool = True, **fields: str
) -> Path:
    """Write a skill's file; `old` folders have not changed for a while. `fields` with `_` are those with `-`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = {"name": folder.name, "description": description} | {
        key.replace("_", "-"): value for key, value in fields.items()
    }
    head = "".join(f"{key}: {value}\n" for key, value in lines.items())
    file = folder / "SKILL.md"
    file.write_text(f"---\n{head}---\n{body}\n")
    if old:
        age(folder)
        age(folder.parent)
    return file


def age(path: Path) -> None:
    """Let a file or folder be an hour old."""
    then = time.time() - 3600
    os.utime(path, (then, then))


class Machine:
    """A home directory and a project."""

    def __init__(self, top: Path) -> None:
        self.home = top / "home"
        self.config = top / "config"
        self.project = top / "project"
        self.cache = top / "cache" / "skills.msgpack"
        self.disabled: tuple[str, ...] = ()
        for folder in (self.home, self.config, self.project / ".git"):
            folder.mkdir(parents=True)

    def find(self, root: Path | None = None) -> FoundSkills:
        """Find skills as a new process does."""
        found = places("skills", root=root or self.project, home=self.home, config_dir=self.config)
        return find_skills(found, SkillCache(self.cache), self.disabled)

    def names(self, root: Path | None = None) -> list[str]:
        """Return the names that can be called."""
        return [skill.name for skill in self.find(root).skills]
