"""A repository, a file of tasks and a model that answers each by its prompt, for tests of batches."""

import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.e2e.world import Done, World
from tests.model.server import Call, Received, Reply

Answer = Callable[[str, int], Reply]
"""The reply for a prompt, after so many results of tools."""


def git(folder: Path, *words: str) -> str:
    """Run git as nobody in particular; returns its output."""
    settings = (
        "-c user.name=t -c maintenance.auto=false -c user.email=t@example.org -c commit.gpgsign=false".split()
    )
    done = subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path, **files: str) -> str:
    """Make a repository with one commit; returns its hash."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    for name, text in {"README.md": "a project\n", **files}.items():
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return git(folder, "rev-parse", "HEAD")


def prompt_of(received: Received) -> tuple[str, int]:
    """Return the prompt of a request, and how many results of tools came after it."""
    messages = received.body["messages"]
    prompts = [str(each["content"]) for each in messages if each["role"] == "user"]
    return prompts[0], sum(each["role"] == "tool" for each in messages)


def answering(world: World, answer: Answer) -> None:
    """Have the model answer each request by its prompt, whatever order they come in."""
    world.server.answer = lambda received: answer(*prompt_of(received))


def writes(prompt: str, results: int) -> Reply:
    """`write NAME: TEXT` writes a file, and says so."""
    found = re.search(r"write (\S+): (.*)", prompt)
    if found is None or results:
        return Reply(text="done")
    return Reply(calls=(Call("write_file", {"path": found[1], "content": found[2] + "\n"}),))


def tasks_file(world: World, tasks: Iterable[dict[str, Any]], name: str = "tasks.jsonl") -> Path:
    """Write a file of tasks in the home of the world."""
    path = world.home / name
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks), encoding="utf-8")
    return path


def results(out: Path) -> list[dict[str, Any]]:
    """Return the lines of results of a batch."""
    return [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def outcomes(out: Path) -> dict[str, list[str]]:
    """Return the outcomes of each task in order."""
    found: dict[str, list[str]] = {}
    for line in results(out):
        found.setdefault(line["id"], []).append(line["outcome"])
    return found


def batch(world: World, tasks: Path, *more: str, **how: Any) -> Done:
    """Run a batch to its end; results go to `world.home / "out"`."""
    return world.run("batch", str(tasks), "-o", str(world.home / "out"), *more, **how)


def applied(patch: Path, repo: Path, commit: str, to: Path) -> dict[str, str]:
    """Return the files of a commit with a patch on top."""
    shutil.rmtree(to, ignore_errors=True)
    archive = subprocess.run(["git", "archive", commit], cwd=repo, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(to, filter="tar")
    if patch.read_bytes():
        git(to, "apply", "--binary", str(patch.absolute()))
    return {
        str(each.relative_to(to)): each.read_text(encoding="utf-8")
        for each in sorted(to.rglob("*"))
        if each.is_file()
    }
