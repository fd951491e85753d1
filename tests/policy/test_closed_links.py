"""A line of an access list that names a link closes the file by that name."""

import os
from pathlib import Path

import pytest

from agent_cli.engine.permissions.active_policy import Permissions
from agent_cli.protocol.actions import Allow, Deny, ReadPath, WritePath
from agent_cli.workspace.paths import Workspace


@pytest.fixture
def permissions(tmp_path: Path) -> Permissions:
    (tmp_path / "sub").mkdir()
    for name in ("real", "sub/creds"):
        (tmp_path / name).write_text("key\n", encoding="utf-8")
    (tmp_path / "creds").symlink_to("real")
    (tmp_path / "other").symlink_to("real")
    (tmp_path / ".agentignore").write_text("/creds\n", encoding="utf-8")
    return Permissions(Workspace(tmp_path), (), mode="yolo")


def test_a_closed_link_is_denied_by_its_name_alone(permissions: Permissions, tmp_path: Path) -> None:
    real = str(tmp_path.resolve() / "real")
    for written in ("creds", "./sub/../creds", str(tmp_path.resolve() / "creds")):
        for action in (ReadPath(real, written), WritePath(real, written)):
            verdict = permissions.authorize(action)
            assert isinstance(verdict, Deny) and verdict.rule.endswith(".agentignore:1"), action
    for open_name in ("real", "other"):
        assert isinstance(permissions.authorize(ReadPath(real, open_name)), Allow)


def test_a_file_of_the_same_name_elsewhere_stays_open(permissions: Permissions, tmp_path: Path) -> None:
    """A command in another folder writes a name that means something else at the root."""
    path = os.path.realpath(tmp_path / "sub" / "creds")
    assert isinstance(permissions.authorize(ReadPath(path, "creds")), Allow)
