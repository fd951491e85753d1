"""An agent in the tree of an attempt: its own sandbox holds in there, and its git works."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from agent_cli.fleet.task import Task
from agent_cli.fleet.trees.attempt_tree import AttemptTree
from agent_cli.fleet.trees.open_tree import open_tree
from agent_cli.sandbox.mechanisms import bubblewrap
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.worktrees.worktree import open_worktree
from tests.e2e.world import World
from tests.model.server import Call, Reply
from tests.workspace.worktrees.test_worktrees import git, put

pytestmark = pytest.mark.skipif(not bubblewrap.program(), reason="there is no bubblewrap on this machine")


def repository(world: World) -> Path:
    repo = Path(os.path.realpath(world.work))
    git(repo, "init", "-q", "-b", "main")
    put(repo, "a.txt", "one\n")
    put(repo, ".gitignore", "node_modules/\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "one")
    put(repo, "node_modules/x/index.js", "original\n")
    return repo


def with_tree(task: Task, place: Path) -> AttemptTree:
    async def opened() -> AttemptTree:
        runner = ProcessRunner()
        try:
            return await open_tree(task, name="one-1", place=place, slot=3, run=runner.run)
        finally:
            await runner.aclose()

    return asyncio.run(opened())


COMMAND = (
    "git add -A && git -c user.name=T -c user.email=t@x commit -qm mine && git log --format=%s;"
    " (echo bad > node_modules/x/index.js) 2>/dev/null || echo fixed; cat node_modules/x/index.js;"
    " (echo out > {outside}) 2>/dev/null || echo closed; echo slot $AGENT_TASK_SLOT; pwd"
)


@pytest.mark.parametrize("mode", ["auto-edit", "yolo"])
def test_an_agent_works_in_a_tree_at_the_path_of_the_repository(world: World, mode: str) -> None:
    repo = repository(world)
    outside = Path(os.path.realpath(world.home)) / "outside.txt"
    task = Task(id="one", prompt="-", repo=str(repo), ref=git(repo, "rev-parse", "HEAD").strip())
    tree = with_tree(task, Path(os.path.realpath(world.home.parent)) / "place")
    assert tree.notes == () and tree.inside == repo
    world.script(
        Reply(calls=(Call("write_file", {"path": "b.txt", "content": "two\n"}),)),
        Reply(calls=(Call("shell", {"command": COMMAND.format(outside=outside)}),)),
        Reply(text="Done."),
    )
    done = world.run(
        "run", "go", "--mode", mode, before=tree.wrapper.line([], own_network=False), env=dict(tree.variables),
        cwd=tree.path,
    )  # fmt: skip
    assert done.code == 0, (done.out, done.err)
    told = world.messages(-1, "tool")[-1]
    assert "mine\none\nfixed\noriginal" in told and f"slot 3\n{repo}" in told, told
    assert ("closed" in told) == (not outside.exists()) == (mode == "auto-edit")
    assert (tree.path / "b.txt").read_text() == "two\n" and not (repo / "b.txt").exists()
    assert git(repo, "log", "--format=%s") == "one\n" and git(tree.path, "log", "--format=%s") == "mine\none\n"
    assert (repo / "node_modules/x/index.js").read_text() == "original\n"


HOSTILE = (
    "git config core.fsmonitor '{hook}'; git config core.hooksPath .; printf '[core]\\n\\tfsmonitor = {hook}\\n' >> {git}/config;"
    " mkdir -p {git}/hooks; cp {hook} {git}/hooks/post-index-change; cp {hook} {git}/hooks/reference-transaction;"
    " mkdir -p own/objects own/refs; echo 'ref: refs/heads/main' > own/HEAD;"
    " printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = {hook}\\n' > own/config;"
    " echo {tree}/own > {entry}/commondir; (rm -f .git && cp -r own .git) ; echo done"
)


def test_git_settings_of_an_agent_without_a_sandbox_do_not_run_in_a_kept_tree(world: World) -> None:
    repo = repository(world)
    hook, ran = Path(os.path.realpath(world.home)) / "hook.sh", Path(os.path.realpath(world.home)) / "ran"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
    hook.chmod(0o755)
    task = Task(id="one", prompt="-", repo=str(repo), ref=git(repo, "rev-parse", "HEAD").strip())
    tree = with_tree(task, Path(os.path.realpath(world.home.parent)) / "place")
    entry = open_worktree(tree.path).entry
    names = {"hook": hook, "git": Path(entry).parent.parent, "entry": entry, "tree": tree.path}
    script = put(Path(os.path.realpath(world.home)), "hostile.sh", HOSTILE.format(**names))
    world.script(Reply(calls=(Call("shell", {"command": f"sh {script}"}),)), Reply(text="Done."))
    done = world.run(
        "run", "go", "--mode", "yolo", "--sandbox", "off", before=tree.wrapper.line([], own_network=False),
        env=dict(tree.variables), cwd=tree.path,
    )  # fmt: skip
    assert done.code == 0 and "done" in world.messages(-1, "tool")[-1], (done.out, done.err)
    for words in (["status"], ["diff"], ["log", "-1"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=tree.path, capture_output=True, check=False)
    assert not ran.exists()
    assert git(tree.path, "log", "--format=%s") == "one\n"
