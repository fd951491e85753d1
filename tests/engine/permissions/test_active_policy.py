"""The policy in force, on real files."""

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import pytest

from agent_cli.engine.permissions.active_policy import Permissions
from agent_cli.engine.permissions.sandbox_profile import SandboxProfiles, SandboxRequest
from agent_cli.policy.rules.rule import parse_rule
from agent_cli.protocol.actions import Action, Allow, Ask, Deny, Mode, ReadPath, RunCommand, WritePath
from agent_cli.sandbox.profile.confinement import EnforcedLevel
from agent_cli.workspace.paths import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("secret/a.txt", "secret/deep/b.txt", "open/c.txt", "keys.pem", "sub/d.key"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / ".agentignore").write_text("# closed\nsecret/\n*.pem\n", encoding="utf-8")
    (tmp_path / "sub" / ".agentignore").write_text("*.key\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("secret/a.txt")
    return tmp_path.resolve()


def actions(root: Path, path: str) -> list[Action]:
    real = str((root / path).resolve())
    lines = (
        f"cat {path}",
        f"head -1 ./{path}",
        f"echo > {path}",
        f"cp {path} b",
        f"sed -n 1p {path}",
        f"python x {path}",
    )
    return [ReadPath(real, path), WritePath(real, path), *(RunCommand(line, str(root)) for line in lines)]


@pytest.mark.parametrize(
    "path", ["secret/a.txt", "secret/deep/b.txt", "secret/new.txt", "keys.pem", "sub/d.key", "link"]
)
@pytest.mark.parametrize("mode", ["ask", "yolo"])
def test_a_closed_file_is_closed_to_every_tool(root: Path, path: str, mode: str) -> None:
    permissions = Permissions(Workspace(root), (), mode=mode)  # type: ignore[arg-type]
    for action in actions(root, path):
        verdict = permissions.authorize(action)
        assert isinstance(verdict, Deny) and ".agentignore:" in verdict.rule, action


@pytest.mark.parametrize("line", ["cat secret/*", "cat *.pem", "cat */*.key", "cat l*", "head s*/*.txt"])
def test_a_glob_that_stands_for_a_closed_file_is_denied(root: Path, line: str) -> None:
    assert isinstance(Permissions(Workspace(root), (), mode="yolo").authorize(RunCommand(line, str(root))), Deny)


def test_what_is_open_stays_open(root: Path) -> None:
    permissions = Permissions(Workspace(root), (), mode="ask")
    for line in ("cat open/c.txt", "cat open/*.txt", "head -1 open/c.txt"):
        assert isinstance(permissions.authorize(RunCommand(line, str(root))), Allow), line
    assert isinstance(permissions.authorize(ReadPath(str(root / "open/c.txt"), "open/c.txt")), Allow)


def test_a_search_that_may_open_closed_files_is_no_longer_known_to_be_harmless(root: Path) -> None:
    search = RunCommand("rg x", str(root))
    verdict = Permissions(Workspace(root), (), mode="ask").authorize(search)
    assert isinstance(verdict, Ask) and ".agentignore closes" in verdict.reason and verdict.grant == "shell(rg x)"
    assert isinstance(Permissions(Workspace(root), (), mode="plan").authorize(search), Deny)
    assert isinstance(Permissions(Workspace(root), (), mode="yolo").authorize(search), Allow)
    allowed = Permissions(Workspace(root), (parse_rule("shell(rg *)", "allow", "test"),), mode="ask")
    assert isinstance(allowed.authorize(search), Allow)


def test_a_list_that_changes_counts_at_once(root: Path) -> None:
    permissions = Permissions(Workspace(root), (), mode="ask")
    action = ReadPath(str(root / "open/c.txt"), "open/c.txt")
    assert isinstance(permissions.authorize(action), Allow)
    (root / ".agentignore").write_text("open\n", encoding="utf-8")
    assert isinstance(permissions.authorize(action), Deny)


@pytest.mark.parametrize("modes", [("auto-edit", "yolo"), ("yolo", "ask")])
async def test_the_workspace_is_walked_in_a_thread_for_the_first_command_of_a_mode(
    root: Path, modes: tuple[Mode, Mode]
) -> None:
    for number in range(30):
        (root / f"part-{number}").mkdir()
    confining = SandboxProfiles(
        Workspace(root), SandboxRequest("workspace-write", False), EnforcedLevel("bubblewrap", hides_inside=True)
    )
    rules = (parse_rule("read(*.key)", "deny", "test"),)
    with closing(Permissions(Workspace(root), rules, mode=modes[0], confining=confining)) as permissions:
        for mode in modes:
            permissions.mode = mode
            await permissions.measure_sandbox()
            listed = 0

            def note(_: FrameType, event: str, called: object) -> None:
                nonlocal listed
                listed += event == "c_call" and called is os.scandir

            sys.setprofile(note)
            try:
                confinement = permissions.confinement("inside")
            finally:
                sys.setprofile(None)
            assert confinement is not None and str(root / "sub/d.key") in confinement.hidden
            assert listed < 10, "30 folders were listed while the terminal waited"


@contextmanager
def confined_by(level: EnforcedLevel, root: Path) -> Iterator[Permissions]:
    for name in (".agentignore", "sub/.agentignore", "sub/d.key", "keys.pem"):
        (root / name).unlink()
    confining = SandboxProfiles(Workspace(root), SandboxRequest("workspace-write", True), level)
    with closing(Permissions(Workspace(root), (), mode="auto-edit", confining=confining)) as permissions:
        yield permissions


@pytest.mark.parametrize(("place", "line"), [(".agentignore", "open/c.txt"), ("open/.agentignore", "c*")])
def test_a_list_that_changes_hides_from_commands_in_the_sandbox(root: Path, place: str, line: str) -> None:
    with confined_by(EnforcedLevel("bubblewrap", hides_inside=True), root) as permissions:

        def is_hidden() -> bool:
            confinement = permissions.confinement("inside")
            return confinement is not None and str(root / "open/c.txt") in confinement.hidden

        assert not is_hidden()
        (root / place).write_text(f"{line}\n", encoding="utf-8")
        assert is_hidden()
        (root / place).write_text("other\n", encoding="utf-8")
        assert not is_hidden()


def test_where_single_files_cannot_be_hidden_commands_ask_once_a_list_closes_one(root: Path) -> None:
    command = RunCommand("python x", str(root))
    with confined_by(EnforcedLevel("landlock"), root) as permissions:
        for name in ("secret", "open"):
            assert isinstance(permissions.authorize(command), Allow), name
            (root / ".agentignore").write_text(f"{name}/*\n", encoding="utf-8")
            assert isinstance(permissions.authorize(command), Ask), name
            (root / ".agentignore").unlink()
