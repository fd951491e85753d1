"""Fifty layouts of folders as users of other agents have them: nothing is silent, and every call is there."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

LAYOUTS = yaml.safe_load(Path(__file__).with_name("layouts.yaml").read_text(encoding="utf-8"))


def _make(folder: Path, layout: dict[str, Any]) -> None:
    for part, key in (("work", "files"), ("home", "home")):
        (folder / part).mkdir(parents=True)
        for name, text in layout.get(key, {}).items():
            _write(folder / part / name, text.encode("utf-8"))
    for name, data in layout.get("bytes", {}).items():
        _write(folder / "work" / name, bytes.fromhex(data))
    for name, target in layout.get("links", {}).items():
        (folder / "work" / name).symlink_to(target)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What is said in each layout, from one process."""
    root = tmp_path_factory.mktemp("layouts")
    asked = []
    for at, layout in enumerate(LAYOUTS):
        _make(root / str(at), layout)
        asked.append((str(root / str(at)), layout.get("calls", [])))
    done = subprocess.run(
        [sys.executable, "-m", "tests.extensions.report_layouts"],
        input=msgspec.json.encode(asked), capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    found: list[Any] = msgspec.json.decode(done.stdout)
    return found


def test_there_are_fifty() -> None:
    assert len(LAYOUTS) >= 50 and len({layout["name"] for layout in LAYOUTS}) == len(LAYOUTS)


@pytest.mark.parametrize("at", range(len(LAYOUTS)), ids=[layout["name"] for layout in LAYOUTS])
def test_every_file_is_accounted_for_and_every_call_is_there(at: int, reports: list[Any]) -> None:
    lines, missing = reports[at]
    said = [f"{each['state']} {each['path']}: {each['what']}" for each in lines]
    left = list(said)
    for wanted in LAYOUTS[at]["lines"]:
        place, _, words = wanted.partition(": ")
        fitting = [line for line in left if line.startswith(f"{place}: ") and words in line.partition(": ")[2]]
        assert fitting, f"{wanted!r} is not in {said}"
        left.remove(fitting[0])
    assert not left and not missing
