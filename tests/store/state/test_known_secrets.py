"""Fingerprints of secrets are kept privately, never the values, and whatever the file is like nothing fails."""

import os
import stat
import subprocess
import sys
from pathlib import Path

from agent_cli.redaction.redactor import Redactor
from agent_cli.store.state.known_secrets import KnownSecretsFile
from tests.redaction.secrets import ALNUM, some
from tests.rows import each_row

ONE, TWO = some(ALNUM, 24, "one"), some(ALNUM, 24, "two")


def mask(path: Path, text: str, known: dict[str, str]) -> str:
    return Redactor(known, KnownSecretsFile(path).recognizer(known)).mask(text)


def test_a_secret_of_an_earlier_run_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    mask(path, "", {"ONE": ONE})
    assert mask(path, f"{ONE} {TWO}", {"TWO": TWO}) == "[masked: ONE] [masked: TWO]"
    assert mask(path, f"{ONE} {TWO}", {}) == "[masked: ONE] [masked: TWO]"


def test_the_file_is_private_and_holds_no_value(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    mask(path, "", {"ONE": ONE})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ONE not in path.read_text() and ONE.encode().hex() not in path.read_text()


def test_a_run_with_nothing_new_does_not_write(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    mask(path, "", {"ONE": ONE})
    before = path.stat().st_ino
    mask(path, "", {"ONE": ONE})
    assert path.stat().st_ino == before


def test_two_folders_have_different_hashes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        mask(tmp_path / name, "", {"ONE": ONE})
    assert len({(tmp_path / name).read_bytes() for name in ("a", "b")}) == 2


@each_row("content", [b"", b"{", b'{"key":"xy"}', b'{"key":"' + b"z" * 64 + b'"}', b"\xff\xfe", b"[]"])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "known.json"
    path.write_bytes(content)
    assert mask(path, ONE, {"ONE": ONE}) == "[masked: ONE]"
    assert mask(path, ONE, {}) == "[masked: ONE]"


def test_without_a_state_folder_nothing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "none" / "known.json"
    assert mask(path, ONE, {"ONE": ONE}) == "[masked: ONE]"
    assert not path.parent.exists()


def test_the_secrets_not_seen_for_longest_are_forgotten_first(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    mask(path, "", {"ONE": ONE})
    mask(path, "", {"TWO": TWO})
    many = {f"N{number}": some(ALNUM, 20, number) for number in range(299)}
    mask(path, "", many)
    assert mask(path, f"{ONE} {TWO}", {}) == f"{ONE} [masked: TWO]"


def test_two_programs_lose_nothing_of_each_others(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    code = (
        "import sys; from pathlib import Path; from agent_cli.store.state.known_secrets import KnownSecretsFile\n"
        "for n in range(5): KnownSecretsFile(Path(sys.argv[1])).recognizer({f'{sys.argv[2]}{n}': f'{sys.argv[2]}{n}Q8w3Zt6Lp'})"
    )
    programs = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name], env=dict(os.environ)) for name in "abc"
    ]
    assert [each.wait(20) for each in programs] == [0, 0, 0]
    text = " ".join(f"{name}{number}Q8w3Zt6Lp" for name in "abc" for number in range(5))
    assert mask(path, text, {}) == " ".join(f"[masked: {name}{number}]" for name in "abc" for number in range(5))
