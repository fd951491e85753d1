"""Repositories for tests of reviews, their material, and a model that answers from a list."""

import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_cli.review.git_reader import GitReader, git_reader
from agent_cli.review.material import Material, Selection, collect
from agent_cli.review.passes import Conversation, Unanswered
from agent_cli.sandbox.process.runner import ProcessRunner

ANYTHING = Selection()


def git(folder: Path, *words: str) -> str:
    """Run git as nobody in particular; returns its output."""
    always = "-c user.name=T -c maintenance.auto=false -c user.email=t@example.org -c protocol.file.allow=always".split()
    done = subprocess.run(["git", *always, *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def put(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def committed(folder: Path, files: Mapping[str, str | bytes], message: str = "one") -> str:
    """Make a repository, or go on in it, and commit files; returns the hash of the commit."""
    folder.mkdir(exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    put(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


@asynccontextmanager
async def reader(folder: Path) -> AsyncIterator[GitReader]:
    """Give a reader of a repository."""
    processes = ProcessRunner()
    try:
        async with git_reader(folder, processes.run) as git:
            yield git
    finally:
        await processes.aclose()


async def material_of(
    folder: Path, asked: Selection = ANYTHING, may_show: Callable[[str], bool] = lambda path: True
) -> Material:
    """Return what a review of a repository reads."""
    async with reader(folder) as git:
        return await collect(git, asked, may_show)


def reported(title: str, path: str = "a.py", line: int = 1, **more: Any) -> dict[str, Any]:
    """Return a finding as a model reports it."""
    value = {
        "title": title, "body": f"{title} happens.", "priority": 2, "confidence": 0.8, "path": path,
        "start_line": line, "end_line": line, "side": "RIGHT", "introduced": "new", "rule": "logic",
        "evidence": [], "suggestion": None,
    }  # fmt: skip
    return {**value, **more}


class ScriptedModel:
    """Answers the questions of a review: passes from a list, checks by the title of the finding.

    Attributes:
        prompts: the questions, in order.
    """

    def __init__(self, *passes: list[dict[str, Any]] | Unanswered, refutes: tuple[str, ...] = ()) -> None:
        self._passes = list(passes)
        self._refutes = refutes
        self.fails: dict[str, Unanswered] = {}
        """Title of a finding → how its check ends."""
        self.prompts: list[str] = []
        self.opened = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Conversation]:
        """Open a conversation."""
        self.opened += 1
        yield self

    async def ask(self, prompt: str, schema: dict[str, Any]) -> Any:
        """See `Conversation`."""
        self.prompts.append(prompt)
        if "verdict" in schema["properties"]:
            for title, failure in self.fails.items():
                if f'"title": "{title}"' in prompt:
                    raise failure
            is_wrong = any(f'"title": "{title}"' in prompt for title in self._refutes)
            return {"verdict": "refuted" if is_wrong else "confirmed", "reason": "I read it.", "evidence": []}
        answer = self._passes.pop(0) if self._passes else []
        if isinstance(answer, Unanswered):
            raise answer
        return {"findings": answer}

    @property
    def checks(self) -> list[str]:
        """The questions about single findings."""
        return [prompt for prompt in self.prompts if "Find out whether" in prompt]
