"""The examples of docs/serve.md run as they stand, and what the page says of the methods is what the types say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.e2e.rpc import Connected, serving
from tests.e2e.world import AGENT, World, finish
from tests.model.server import Call, Reply

PIPED, ON_SOCKET = [block.text for block in blocks("python") if block.page == "docs/serve.md"]


def run(world: World, text: str) -> str:
    """Run an example; returns what it prints."""
    path = f"{Path(AGENT).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=world.work, env=world.environment({"PATH": path}),
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_client_that_starts_the_server(world: World) -> None:
    assert len(PIPED.splitlines()) <= 30
    world.measured()
    write = Call("write_file", {"path": "test_basket.py", "content": "assert True\n"})
    world.script(Reply(calls=(write,)), Reply(text="There is one now."))
    assert run(world, PIPED) == "There is one now.\n"
    assert (world.work / "test_basket.py").exists()


def test_a_client_that_is_told_of_a_failure(world: World) -> None:
    world.measured()
    world.may_refuse = True
    world.script(Reply(status=401))
    assert "OPENAI_API_KEY" in run(world, PIPED)


def test_a_client_on_a_socket(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.script(Reply(text="Hello."))
    monkeypatch.chdir(world.work)
    process = serving(world, Path("agent.sock"))
    client = Connected(Path("agent.sock")).hello()
    session = client.open()
    client.prompt(session, "what is in the basket?")
    assert run(world, ON_SOCKET) == f"{session} what is in the basket?\n"
    client.close()
    process.terminate()
    finish(process)


def test_the_page_is_up_to_date() -> None:
    code = "import make_serve; assert make_serve.page() == make_serve.TARGET.read_text(encoding='utf-8')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "docs", env={**os.environ, "PYTHONPATH": f"{ROOT}"},
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, f"run: python docs/make_serve.py\n{done.stderr}"
