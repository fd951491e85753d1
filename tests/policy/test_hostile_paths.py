"""Hostile paths against the real file tools under the real permissions: links, loops, devices, git's own data, names
that are none. What is not in the workspace is neither shown nor changed without a person."""

import os
import subprocess
from pathlib import Path
from typing import Any

from agent_cli.engine.permissions.active_policy import Permissions
from agent_cli.protocol.actions import Allow
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.files.edit import EditFile, EditParams
from agent_cli.tools.files.file_change import Edit
from agent_cli.tools.files.patch import ApplyPatch, PatchParams
from agent_cli.tools.files.read import ReadFile, ReadParams
from agent_cli.tools.files.write import WriteFile, WriteParams
from agent_cli.tools.kit.base import Tool, ToolContext, ToolError
from agent_cli.tools.new_context import new_context
from agent_cli.tools.search.grep_glob import Glob, GlobParams, Grep, GrepParams
from agent_cli.tools.search.list_dir import ListDir, ListParams
from agent_cli.workspace.paths import Workspace
from tests.policy.support import corpus
from tests.rows import each_row

CASES = corpus("paths.json", "cases")
_BASE = (
    "mkdir -p $WS/sub $WS/.git/hooks $OUT; echo A > $WS/a.txt; echo B > $WS/sub/b.txt; echo 'ref: x' > $WS/.git/HEAD;"
    " echo '[core]' > $WS/.git/config; echo SECRET > $OUT/secret"
)
_NEEDS_ROOTS_ABSENCE = {"readonly"}


def _call(op: str, path: str) -> tuple[Tool, Any]:
    made: dict[str, tuple[Any, Any]] = {
        "read": (ReadFile(), ReadParams(path)),
        "write": (WriteFile(), WriteParams(path, "NEW\n", may_shrink=True)),
        "edit": (EditFile(), EditParams(path, (Edit("A", "NEW"),))),
        "list": (ListDir(), ListParams(path)),
        "grep": (Grep(), GrepParams(".", path)),
        "glob": (Glob(), GlobParams("*", path)),
        "globpat": (Glob(), GlobParams(path)),
        "delete": (ApplyPatch(), PatchParams(f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n")),
    }
    return made[op]


async def _tried(op: str, path: str, context: ToolContext, permissions: Permissions) -> str:
    """What the model would get to see; empty where a person is asked or the tool refuses."""
    try:
        if op in ("write", "delete") and os.path.isfile(context.workspace.resolve(path).real):
            await ReadFile().run(ReadParams(path), context)
            real = context.workspace.resolve(path).real
            context.seen.update((await ReadFile().run(ReadParams(path), context)).seen or {real: ""})
    except (ToolError, ValueError, OSError):
        pass
    tool, params = _call(op, path)
    try:
        actions = tool.actions(params, context)
        if not all(isinstance(permissions.authorize(action), Allow) for action in actions):
            return ""
        return (await tool.run(params, context)).text or "done"
    except ToolError:
        return ""


@each_row("case", CASES)
async def test_a_path_leads_nowhere_it_should_not(case: dict[str, Any], tmp_path: Path) -> None:
    root, out, home = tmp_path / "ws", tmp_path / "out", tmp_path / "home"
    home.mkdir()
    env = {**os.environ, "WS": str(root), "OUT": str(out), "HOME": str(home)}
    subprocess.run(["sh", "-ec", "\n".join([_BASE, *case.get("setup", [])])], env=env, check=True, timeout=90)
    processes = ProcessRunner()
    context = new_context(Workspace(root), processes, tmp_path / "spill", call_id="c")
    permissions = Permissions(Workspace(root), (), mode="auto-edit")
    path = case["path"].replace("$WS", str(root)).replace("$OUT", str(out))
    try:
        shown = await _tried(case["op"], path, context, permissions)
    finally:
        await processes.aclose()
    if case["id"] in _NEEDS_ROOTS_ABSENCE and os.geteuid() == 0:
        return
    assert ("allow" if shown else "deny") == case["expect"], shown
    assert "SECRET" not in shown and "root:" not in shown
    for line in case.get("post", []):
        assert subprocess.run(["sh", "-c", line], env=env, timeout=90).returncode == 0, line


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 120
