"""The archive that `make standalone` packs, in a root that has nothing else: no shell, no C library, no Python."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli import __version__
from tests.e2e.world import World
from tests.model.server import Call, Reply

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "scripts" / "make_standalone.py"
MOST_BYTES = 40_000_000

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bwrap", "cc", "ldd", "strip"))), reason="bubblewrap or the compiler is missing"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Everything that the archive holds, not yet packed."""
    folder = tmp_path_factory.mktemp("standalone") / "agent"
    made = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as made:
        yield made


def alone(world: World, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the packed agent where there is nothing but it, a work folder, /proc and /dev."""
    root = (
        *("bwrap", "--ro-bind", str(folder), "/opt/agent", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *("--bind", str(world.work), "/work", "--chdir", "/work", "--unshare-pid", "--die-with-parent"),
    )
    places = {"HOME": "/tmp", "AGENT_STATE_DIR": "/tmp/state", "AGENT_CONFIG_DIR": "/tmp/config"}
    return started(world, [*root, "/opt/agent/bin/agent", *arguments], places)


def started(world: World, argv: list[str], places: dict[str, str | None]) -> "subprocess.CompletedProcess[str]":
    env = world.environment(places)
    return subprocess.run(
        argv, cwd=world.work, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


def test_it_runs_where_there_is_nothing_else(world: World, built: Path) -> None:
    done = alone(world, built, "--version")
    assert (done.stdout, done.stderr, done.returncode) == (f"agent-cli {__version__}\n", "", 0)


def test_it_does_a_task_there(world: World, built: Path) -> None:
    (world.work / "basket.py").write_text("total = 1\n", encoding="utf-8")
    edit = {"path": "basket.py", "edits": [{"old": "1", "new": "2"}]}
    world.script(
        Reply(calls=(Call("read_file", {"path": "basket.py"}), Call("edit_file", edit))),
        Reply(calls=(Call("shell", {"command": "true"}),)),
        Reply(text="Changed."),
    )
    done = alone(world, built, "run", "--mode", "yolo", "--sandbox", "off", "Change it.")
    assert (done.stdout, done.returncode) == ("Changed.\n", 0), done.stderr
    assert (world.work / "basket.py").read_text(encoding="utf-8") == "total = 2\n"
    assert "/bin/sh was not found" in world.messages(role="tool")[-1]


def test_it_searches_and_runs_commands_with_the_programs_of_the_machine(world: World, built: Path) -> None:
    (world.work / "basket.py").write_text("def total(): ...\n", encoding="utf-8")
    calls = (
        Call("grep", {"pattern": "tot.l"}),
        Call("repo_map", {}),
        Call("shell", {"command": "env | grep -c -e ^LD_ -e ^PYTHON"}),
    )
    world.script(Reply(calls=calls), Reply(text="Done."))
    done = started(world, [str(built / "bin" / "agent"), "run", "--mode", "yolo", "Look."], {})
    assert (done.stdout, done.returncode) == ("Done.\n", 0), done.stderr
    found, mapped, ran = world.messages(role="tool")
    assert "basket.py" in found
    assert "the parsers for it are not installed" in mapped
    assert ran.startswith("0\n"), ran


def test_a_model_behind_litellm_says_what_is_missing(world: World, built: Path) -> None:
    done = alone(world, built, "run", "--model", "replicate/llama", "Say hello.")
    assert done.returncode == 2
    assert "this provider needs LiteLLM, which cannot be loaded" in done.stderr


@pytest.mark.long
def test_the_archive_is_small_and_unpacks_anywhere(world: World, tmp_path: Path) -> None:
    subprocess.run([sys.executable, SCRIPT], check=True, capture_output=True, timeout=600)
    (archive,) = (ROOT / "dist").glob("agent-*.tar.xz")
    assert archive.stat().st_size <= MOST_BYTES
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    done = alone(world, tmp_path / archive.name.removesuffix(".tar.xz"), "--version")
    assert done.stdout == f"agent-cli {__version__}\n"
