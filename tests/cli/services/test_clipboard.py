"""The desktop's clipboard, with programs of the test's own in the place of a desktop's."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli.cli.services.clipboard import copy_text
from agent_cli.sandbox.process.runner import ProcessRunner


@pytest.fixture
async def processes() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def desktop(folder: Path, **variables: str) -> dict[str, str]:
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HERE": str(folder), **variables}


async def test_the_program_of_the_desktop_gets_the_text(processes: ProcessRunner, tmp_path: Path) -> None:
    program(tmp_path / "bin", "wl-copy", 'cat > "$HERE/got"')
    program(tmp_path / "bin", "xclip", 'cat > "$HERE/wrong"')
    text = "über\n\ttab\n" * 50_000
    assert await copy_text(processes, text, env=desktop(tmp_path, WAYLAND_DISPLAY="w", DISPLAY=":0")) == "wl-copy"
    assert (tmp_path / "got").read_text(encoding="utf-8") == text and not (tmp_path / "wrong").exists()


async def test_what_fails_gives_way_to_the_next(processes: ProcessRunner, tmp_path: Path) -> None:
    program(tmp_path / "bin", "xclip", "echo no display >&2; exit 1")
    program(tmp_path / "bin", "xsel", 'echo "$@" > "$HERE/how"; cat > "$HERE/got"')
    assert await copy_text(processes, "x", env=desktop(tmp_path, DISPLAY=":0")) == "xsel"
    assert (tmp_path / "got").read_text() == "x" and (tmp_path / "how").read_text() == "--clipboard --input\n"


async def test_the_clipboard_of_another_machine_is_left_alone(processes: ProcessRunner, tmp_path: Path) -> None:
    program(tmp_path / "bin", "xclip", 'cat > "$HERE/got"')
    for variable in ("SSH_CONNECTION", "SSH_TTY"):
        assert await copy_text(processes, "x", env=desktop(tmp_path, DISPLAY=":0", **{variable: "1"})) == ""
    assert await copy_text(processes, "x", env=desktop(tmp_path)) == ""
    assert not (tmp_path / "got").exists()


async def test_a_program_in_the_workspace_is_not_run(processes: ProcessRunner, tmp_path: Path) -> None:
    program(tmp_path / "bin", "xclip", 'cat > "$HERE/got"')
    assert await copy_text(processes, "x", [tmp_path], env=desktop(tmp_path, DISPLAY=":0")) == ""
    assert not (tmp_path / "got").exists()


async def test_windows_gets_what_it_can_read(processes: ProcessRunner, tmp_path: Path) -> None:
    program(tmp_path / "bin", "clip.exe", 'cat > "$HERE/got"')
    assert await copy_text(processes, "ü", env=desktop(tmp_path, WSL_DISTRO_NAME="D")) == "clip.exe"
    assert (tmp_path / "got").read_bytes().decode("utf-16") == "ü"


async def test_a_program_that_hangs_is_given_up(processes: ProcessRunner, tmp_path: Path) -> None:
    program(tmp_path / "bin", "xclip", 'echo $$ > "$HERE/pid"; exec sleep 60')
    assert await copy_text(processes, "x", env=desktop(tmp_path, DISPLAY=":0")) == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_program_that_holds_the_text_outlives_us(processes: ProcessRunner, tmp_path: Path) -> None:
    script = 'cat > "$HERE/got"\n( echo "$(exec sh -c \'echo $PPID\')" > "$HERE/pid"; exec sleep 60 ) &\nexit 0'
    program(tmp_path / "bin", "xclip", script)
    assert await copy_text(processes, "x", env=desktop(tmp_path, DISPLAY=":0")) == "xclip"
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text().strip():
        await asyncio.sleep(0.01)
    await processes.aclose()
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, 0)
    os.kill(pid, 15)
