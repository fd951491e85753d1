"""Blocks of a prompt as input for the engine."""

from pathlib import Path
from typing import Any

import pytest

from agent_cli.protocol.messages import Image
from agent_cli.serve.acp.content import PromptReader, file_of
from agent_cli.serve.jsonrpc.messages import RpcError
from tests.rows import each_row


def reader(folder: Path) -> PromptReader:
    return PromptReader((str(folder),), lambda data: Image("image/png", data.decode()))


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def link(uri: str) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": "the name"}


def test_parts_are_joined_as_they_were_written(tmp_path: Path) -> None:
    blocks = [
        text("Compare"),
        link(f"file://{tmp_path}/a%20b.py"),
        text("with "),
        link(str(tmp_path / "c.py")),
        text("."),
    ]
    assert reader(tmp_path).read(blocks).text == 'Compare @"a b.py" with @"c.py".'


@each_row(
    ("uri", "mention"),
    [
        ("file:///other/x.py", '@"/other/x.py"'),
        ("file:///other/x.py#L3", '@"/other/x.py":3'),
        ("file:///other/x.py#L3-L9", '@"/other/x.py":3-9'),
        ("file:///other/x.py#L3:9", '@"/other/x.py":3'),
        ("file:///other/x.py#Lx", '@"/other/x.py"'),
        ("https://x.example/", "[the name](https://x.example/)"),
        ("file://[broken", "[the name](file://[broken)"),
        ('file:///a"b', '[the name](file:///a"b)'),
        ("file:///a%00b", "[the name](file:///a%00b)"),
        ("file:///a\ud800", "[the name](file:///a\ud800)"),
    ],
)
def test_a_link_is_a_mention_where_it_is_a_file(tmp_path: Path, uri: str, mention: str) -> None:
    assert reader(tmp_path).read([link(uri)]).text == mention


def test_a_file_is_named_from_the_folder_also_where_a_link_leads_there(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "linked.py").symlink_to("a.py")
    (tmp_path / "way").symlink_to("real")
    uris = [f"file://{tmp_path}/{name}" for name in ("way/a.py", "way/linked.py", "real/a.py", "way")]
    given = reader(tmp_path / "way").read([link(uri) for uri in uris])
    assert given.text == '@"a.py" @"linked.py" @"a.py" @"."'


def test_a_resource_of_the_workspace_is_the_users_and_any_other_is_data(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    uris = [f"file://{tmp_path}/a.py", f"file://{tmp_path}/out/passwd", "file:///etc/passwd", "zed:///thread/1"]
    blocks = [{"type": "resource", "resource": {"uri": uri, "text": "@b.py"}} for uri in uris]
    given = reader(tmp_path).read([text("look"), *blocks])
    assert [bool(each.source) for each in given.brought] == [False, True, True, True]
    assert given.brought[0].text == '<resource uri="a.py">\n@b.py\n</resource>'
    assert "@" not in given.text


@each_row("blocks", [[], [text(" ")], [{"type": "video"}], [{}], [{"type": "image", "data": "%"}]])
def test_what_cannot_be_used_is_refused(tmp_path: Path, blocks: list[dict[str, Any]]) -> None:
    with pytest.raises(RpcError):
        reader(tmp_path).read(blocks)


def test_only_absolute_paths_are_files() -> None:
    assert file_of("file://elsewhere/etc/hosts") is None and file_of("file://localhost/a.py") == "/a.py"
    assert file_of("a.py") is None and file_of("/a.py") == "/a.py" and file_of("file:a.py") is None
