"""Addresses of plug-ins, and what marketplaces say of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.extensions.plugins.plugin import PluginError
from agent_cli.extensions.plugins.sources import Source, entry_manifest, entry_source, listed, parse_source
from tests.rows import each_row


@each_row(
    ("text", "place", "ref", "entry"),
    [
        ("github:o/r", "https://github.com/o/r.git", "", ""),
        ("github:o/r.git@v1", "https://github.com/o/r.git", "v1", ""),
        ("github:o/r@feature/x#tool", "https://github.com/o/r.git", "feature/x", "tool"),
        ("https://h.example/a/b.git", "https://h.example/a/b.git", "", ""),
        ("https://user@h.example/a/b@main", "https://user@h.example/a/b", "main", ""),
        ("ssh://git@h.example/a/b.git@v2#x", "ssh://git@h.example/a/b.git", "v2", "x"),
        ("git@h.example:a/b.git", "git@h.example:a/b.git", "", ""),
        ("git@h.example:a/b.git@v2", "git@h.example:a/b.git", "v2", ""),
        ("file:///srv/b.git", "file:///srv/b.git", "", ""),
    ],
)
def test_a_git_address_and_back(tmp_path: Path, text: str, place: str, ref: str, entry: str) -> None:
    found = parse_source(text, tmp_path)
    assert found == Source(kind="git", place=place, ref=ref, entry=entry)
    assert parse_source(str(found), Path("/")) == found


def test_a_folder_and_back(tmp_path: Path) -> None:
    (tmp_path / "a#b").mkdir()
    (tmp_path / "market").mkdir()
    assert parse_source("./a#b", tmp_path) == Source(kind="folder", place=str(tmp_path / "a#b"))
    found = parse_source("market#tool", tmp_path)
    assert found == Source(kind="folder", place=str(tmp_path / "market"), entry="tool")
    assert parse_source(str(found), Path("/")) == found


@each_row(
    ("text", "says"),
    [
        ("http://h.example/a", "not supported"),
        ("git://h.example/a", "not supported"),
        ("ext::sh -c evil", "not supported"),
        ("https://-oProxyCommand=x/a", "not supported"),
        ("-oX@h.example:a", "no folder"),
        ("github:o", "OWNER/REPO"),
        ("github:../x", "OWNER/REPO"),
        ("github:o/..", "OWNER/REPO"),
        ("github:o/r@--upload-pack=x", "not a branch"),
        ("https://h.example/a@-x", "not a branch"),
        ("https://h.example/a b", "not supported"),
        ("owner/repo", "did you mean github:owner/repo"),
        ("github:o/r#", "behind #"),
        ("", "no folder"),
    ],
)
def test_what_is_no_address(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(PluginError, match=says):
        parse_source(text, tmp_path)


MARKET = Source(kind="git", place="https://github.com/m/m.git", ref="abc", entry="x")


def entry(source: Any, **more: Any) -> bytes:
    return json.dumps({"name": "m", "plugins": [{"name": "x", "source": source, **more}]}).encode()


@each_row(
    ("written", "place", "ref", "path"),
    [
        ("./plugins/x", "https://github.com/m/m.git", "abc", "plugins/x"),
        ("./", "https://github.com/m/m.git", "abc", ""),
        ({"source": "local", "path": "./x"}, "https://github.com/m/m.git", "abc", "x"),
        ({"source": "github", "repo": "o/r", "ref": "v1"}, "https://github.com/o/r.git", "v1", ""),
        ({"source": "github", "repo": "o/r", "ref": "v1", "sha": "f" * 40}, "https://github.com/o/r.git", "f" * 40, ""),
        ({"source": "url", "url": "https://h.example/a.git"}, "https://h.example/a.git", "", ""),
        ({"source": "git-subdir", "url": "o/r", "path": "a/b"}, "https://github.com/o/r.git", "", "a/b"),
    ],
)  # fmt: skip
def test_where_an_entry_lies(written: Any, place: str, ref: str, path: str) -> None:
    assert entry_source(entry(written), "x", MARKET) == Source(kind="git", place=place, ref=ref, path=path)


@each_row(
    "written",
    [
        "../x", "/etc", "./a/../../b", 5, None, {"source": "npm", "package": "x"}, {"source": "command"},
        {"source": "github", "repo": "../x"}, {"source": "url", "url": "ext::sh"}, {"source": "url"},
        {"source": "url", "url": "http://h.example/a"}, {"source": "git-subdir", "url": "o/r", "path": "../.."},
        {"source": "github", "repo": "o/r", "ref": "-x"},
    ],
)  # fmt: skip
def test_entries_that_are_refused(written: Any) -> None:
    with pytest.raises(PluginError):
        entry_source(entry(written), "x", MARKET)


@each_row("data", [b"", b"{", b"[]", b"[" * 100_000, b'{"plugins": 5}', b'{"plugins": [5, {"name": 5}]}'])
def test_hostile_marketplaces(data: bytes) -> None:
    with pytest.raises(PluginError):
        entry_source(data, "x", MARKET)
    assert listed(data)


def test_the_root_of_plugins_and_the_parts_of_an_entry() -> None:
    data = json.loads(entry("x", skills=["./a"], strict=False, category="y"))
    data["metadata"] = {"pluginRoot": "./plugins"}
    encoded = json.dumps(data).encode()
    assert entry_source(encoded, "x", MARKET).path == "plugins/x"
    assert json.loads(entry_manifest(encoded, "x")) == {"name": "x", "skills": ["./a"]}
    assert entry_manifest(entry("./x", description="d"), "x") == b""
