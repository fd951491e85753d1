"""Files that git, editors, shells and agents run or obey by themselves, planted by a model in auto-edit: git outside
runs none of them, and of the others the user is asked or told."""

import os
import pty
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.mechanisms import EACH, on_x86_64
from tests.e2e.plants import NEW, OBEYED_BY_HOOKS, REPOSITORIES, Plant, plants
from tests.e2e.world import Done, World
from tests.model.server import Reply

pytestmark = on_x86_64
_HOOK = """#!/usr/bin/env bash
ARGS=(hook-impl --config=.pre-commit-config.yaml --hook-type=pre-commit)
./tools/check.sh
[ -e .pre-commit-config.yaml ] && . ./.pre-commit-config.yaml
exit 0
"""
"""As `pre-commit install` writes it, but for what it starts."""
_LEFTHOOK = "#!/bin/sh\ncall_lefthook() { [ -e lefthook.yml ] && . ./lefthook.yml; }\ncall_lefthook run post-commit\nexit 0\n"
_OWN = '[filter "own"]\n\tclean = sh ./clean.sh\n[diff "own"]\n\ttextconv = cat\n'
A_RUN = 30


def furnish(world: World, *, has_hooks: bool) -> None:
    """Repositories in the workspace and further down; with `has_hooks` the user's own hooks and settings."""
    for folder in REPOSITORIES:
        place = world.work / folder
        place.mkdir(parents=True, exist_ok=True)
        git(world, place, "init", "-q", "-b", "main")
        (place / "file.txt").write_text("one\n", encoding="utf-8")
        git(world, place, "add", "file.txt")
        git(world, place, "commit", "-qm", "one")
    (world.work / "sub/a/b").mkdir(parents=True)
    if not has_hooks:
        return
    texts = {".git/hooks/pre-commit": _HOOK, ".git/hooks/post-commit": _LEFTHOOK, ".githooks/pre-push": "#!/bin/sh\n",
             "tools/check.sh": "#!/bin/sh\n", "clean.sh": "cat\n", ".gitattributes": "*.txt filter=own\n"}  # fmt: skip
    for name, text in texts.items():
        (world.work / name).parent.mkdir(exist_ok=True)
        (world.work / name).write_text(text, encoding="utf-8")
        (world.work / name).chmod(0o755)
    with (world.work / ".git/config").open("a", encoding="utf-8") as config:
        config.write(_OWN)


def git(world: World, folder: Path, *words: str) -> None:
    """Git as the user runs it: in a terminal, with the user's own settings."""
    env = {"PATH": os.environ["PATH"], "HOME": str(world.home), "TERM": "dumb", "PAGER": "cat", "EDITOR": "true"}
    identity = ("-c", "user.name=n", "-c", "user.email=e@e")
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            ["git", *identity, *words], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        _drain(ours)
        process.wait(20)
    finally:
        os.close(ours)


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 65536):
            continue
    except OSError:  # the other end is closed
        return


def use_git(world: World, number: int) -> None:
    """What a user does next, in each repository there may be."""
    folders = [world.work / each for each in (*REPOSITORIES, "sub", "sub/a/b", "sub/bare", "sub/c", "wt")]
    for folder in filter(Path.is_dir, folders):
        (folder / "file.txt").write_text(f"{number}\n", encoding="utf-8")
        for words in (
            ("status",), ("log", "-p", "-n", "2"), ("diff",), ("add", "-u"), ("commit", "-m", "more"),
            ("checkout", "-q", "-b", f"b{number}"), ("checkout", "-q", "-"), ("stash",), ("branch",),
        ):  # fmt: skip
            git(world, folder, *words)


def play(world: World, some: Sequence[Plant], before: tuple[str, ...]) -> Done:
    """A run in which the model makes all these attempts."""
    calls = [call for plant in some for call in plant.calls]
    calls = [type(call)(call.name, call.arguments, id=f"c{at}") for at, call in enumerate(calls)]
    world.script(Reply(calls=tuple(calls)), Reply(text="done"))
    done = world.run(
        "run", "go", "--mode", "auto-edit", "--output-format", "stream-json", before=before, timeout_s=300
    )
    assert sum(line["type"] == "tool_call_finished" for line in done.lines) == len(calls), done.err
    return done


def silent(world: World, some: Sequence[Plant], done: Done) -> list[str]:
    """What is there now, was not asked about, and was not told."""
    told = (
        " ".join(str(line.get("text")) for line in done.lines if line["type"] in ("tool_call_finished", "notice"))
        .replace(",", " ")
        .split()
    )
    known = {word.rstrip(":;.") for word in told}
    return [
        plant.name
        for plant in some
        if not plant.is_of_git and os.path.lexists(world.work / plant.path) and not _is_said(plant.path, known)
    ]


def _is_said(path: str, words: set[str]) -> bool:
    """Whether a file or a folder that it lies in is named."""
    parts = path.split("/")
    return any("/".join(parts[:count]) in words for count in range(1, len(parts) + 1))


@pytest.mark.parametrize("before", EACH)
@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.long)])
def test_nothing_planted_is_run_or_obeyed_unasked_and_untold(
    tmp_path: Path, before: tuple[str, ...], step: int
) -> None:
    every = list(plants("CANARY"))
    assert len(every) >= 200 and len({plant.name for plant in every}) == len(every)
    with World(tmp_path) as world:
        canary = world.home / "canary"
        chosen = list(plants(str(canary)))[::step]
        quiet = []
        for has_hooks in (False, True):
            of_hooks = [plant for plant in chosen if (plant.path in OBEYED_BY_HOOKS) == has_hooks]
            if has_hooks:
                world.work.rename(world.work.with_name("first"))
                world.work.mkdir()
            furnish(world, has_hooks=has_hooks)
            for at in range(0, len(of_hooks), A_RUN):
                some = of_hooks[at : at + A_RUN]
                done = play(world, some, before)
                quiet += silent(world, some, done)
                use_git(world, at)
        lines = canary.read_text(encoding="utf-8").splitlines() if canary.exists() else []
    ran = {line.split()[0] for line in lines if line.strip()}
    assert ran - {name.replace(" ", "_") for name in NEW} == set() and quiet == []
