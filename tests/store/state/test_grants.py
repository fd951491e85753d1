"""Kept rules: one small file, written whole or not at all, never misread as empty."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.store.session_file import StoreError
from agent_cli.store.state.grants import GrantFile
from tests.rows import each_row


def test_without_a_file_there_are_no_rules_and_reading_makes_none(tmp_path: Path) -> None:
    assert GrantFile(tmp_path / "deep" / "p.json").rules() == ()
    assert list(tmp_path.iterdir()) == []


def test_rules_are_kept_in_order_one_a_line_for_their_owner(tmp_path: Path) -> None:
    grants = GrantFile(tmp_path / "deep" / "p.json")
    for rule in ("shell(npm run *)", 'write("ä".md)', "read"):
        grants.add(rule)
    assert GrantFile(grants.path).rules() == ("shell(npm run *)", 'write("ä".md)', "read")
    lines = grants.path.read_text(encoding="utf-8").splitlines()
    assert lines[2:5] == ['    "shell(npm run *)",', '    "write(\\"ä\\".md)",', '    "read"']
    assert json.loads(grants.path.read_text(encoding="utf-8")) == {"allow": list(grants.rules())}
    assert (grants.path.stat().st_mode & 0o777, grants.path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_rule_kept_twice_is_there_once_and_the_file_is_not_written_again(tmp_path: Path) -> None:
    grants = GrantFile(tmp_path / "p.json")
    grants.add("shell(ls)")
    before = grants.path.stat()
    grants.add("shell(ls)")
    after = grants.path.stat()
    assert (grants.rules(), after.st_ino, after.st_mtime_ns) == (("shell(ls)",), before.st_ino, before.st_mtime_ns)


def test_a_file_that_others_could_read_is_theirs_no_more(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"allow": ["read"]}', encoding="utf-8")
    path.chmod(0o644)
    GrantFile(path).add("write")
    assert (GrantFile(path).rules(), path.stat().st_mode & 0o777) == (("read", "write"), 0o600)


def test_the_old_file_is_replaced_and_never_changed_in_place(tmp_path: Path) -> None:
    grants = GrantFile(tmp_path / "p.json")
    grants.add("one")
    with grants.path.open("rb") as reader:
        grants.add("two")
        assert json.loads(reader.read()) == {"allow": ["one"]}, "who reads sees a whole file"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.json", "p.json.lock"]


def test_a_pipe_in_its_place_is_an_error_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.json")
    with pytest.raises(StoreError, match=r"cannot read .*p\.json: not a regular file"):
        GrantFile(tmp_path / "p.json").rules()


@each_row("content", ["", "{", "[]", '{"allow": "shell"}', '{"allow": [1]}', '{"allow": ["a"]'])
def test_a_damaged_file_is_an_error_and_is_left_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(content, encoding="utf-8")
    grants = GrantFile(path)
    for act in (grants.rules, lambda: grants.add("shell(ls)")):
        with pytest.raises(StoreError, match=r"p\.json: .*Fix or delete the file"):
            act()
    assert path.read_text(encoding="utf-8") == content


def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "p.json").mkdir()
    grants = GrantFile(tmp_path / "p.json")
    with pytest.raises(StoreError, match=r"cannot read .*p\.json: not a regular file"):
        grants.rules()


def test_a_place_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match=r"cannot write .*p\.json: (Not a directory|File exists)"):
        GrantFile(tmp_path / "file" / "p.json").add("read")


def test_a_misspelt_key_is_an_error_and_never_no_rules(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"alow": ["shell(ls)"]}', encoding="utf-8")
    with pytest.raises(StoreError, match="alow"):
        GrantFile(path).rules()


def test_processes_that_add_at_once_lose_no_rule(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    code = "import sys; from pathlib import Path; from agent_cli.store.state.grants import GrantFile; "
    code += "GrantFile(Path(sys.argv[1])).add(sys.argv[2])"
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), f"shell(run {n})"]) for n in range(6)]
    assert [process.wait(30) for process in running] == [0] * 6
    assert sorted(GrantFile(path).rules()) == [f"shell(run {n})" for n in range(6)]


def test_a_removed_rule_is_gone_and_the_others_stay(tmp_path: Path) -> None:
    grants = GrantFile(tmp_path / "p.json")
    for rule in ("read", "write", "shell(make *)"):
        grants.add(rule)
    assert grants.remove("write") and not grants.remove("write")
    assert GrantFile(grants.path).rules() == ("read", "shell(make *)")
    assert grants.remove("read") and grants.remove("shell(make *)")
    assert GrantFile(grants.path).rules() == ()
