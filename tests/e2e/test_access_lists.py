"""Access lists (`.agentignore`) against programs that commands run, where bubblewrap can be had."""

from pathlib import Path

import pytest

from tests.e2e.world import World
from tests.model.server import Call, Reply

ATTACKS = {
    "removes": "os.remove(LIST)",
    "renames": "os.rename(LIST, 'x')",
    "empties": "open(LIST, 'w').write('#')",
    "replaces": "os.replace('empty', LIST)",
    "moves the file": "os.rename('sub', 'moved'); os.rename('moved/key.txt', 'sub.txt')",
}


def laid_out(world: World, folder: str) -> Path:
    sub = world.work / "sub"
    sub.mkdir()
    (sub / "key.txt").write_text("planted", encoding="utf-8")
    (world.work / "empty").touch()
    (world.work / folder / ".agentignore").write_text("key.txt\n", encoding="utf-8")
    return sub


def told(world: World, mode: str, *steps: str | Call) -> list[str]:
    """Run programs in one session, each as a command that names nothing, and other calls; return what the model
    is told."""
    calls = []
    for at, step in enumerate(steps):
        if isinstance(step, str):
            (world.work / f"try{at}.py").write_text(f"import os\n{step}\n", encoding="utf-8")
        calls.append(Call("shell", {"command": f"python3 try{at}.py"}) if isinstance(step, str) else step)
    world.script(*(Reply(calls=(each,)) for each in calls), Reply(text="done"))
    world.run("run", "go", "--mode", mode, "--output-format", "json")
    return [record["text"] for record in world.records("tool_result")]


READ = "for name in ('sub/k' + 'ey.txt', 'sub.t' + 'xt'):\n    if os.path.exists(name): print(open(name).read())"


@pytest.mark.parametrize("mode", ["auto-edit", "yolo"])
@pytest.mark.parametrize("folder", ["sub", "."])
def test_a_list_in_any_folder_hides_files_from_programs(world: World, mode: str, folder: str) -> None:
    laid_out(world, folder)
    (text,) = told(world, mode, READ)
    assert "planted" not in text and "[exit code" in text


@pytest.mark.parametrize("mode", ["auto-edit", "yolo"])
@pytest.mark.parametrize("folder", ["sub", "."])
def test_no_program_takes_a_list_away(world: World, mode: str, folder: str) -> None:
    sub = laid_out(world, folder)
    name = f"LIST = '{folder}/.agent' + 'ignore'\n"
    texts = told(world, mode, *(part for attack in ATTACKS.values() for part in (name + attack, READ)))
    assert not [text for text in texts if "planted" in text]
    assert (world.work / folder / ".agentignore").read_text(encoding="utf-8") == "key.txt\n"
    assert (sub / "key.txt").read_text(encoding="utf-8") == "planted"


@pytest.mark.parametrize("mode", ["auto-edit", "yolo"])
def test_no_program_opens_a_file_by_a_list_of_its_own(world: World, mode: str) -> None:
    sub = laid_out(world, ".")
    opened = "open('sub/.agent' + 'ignore', 'w').write('!key.txt')"
    first, *texts = told(world, mode, opened, READ, Call("read_file", {"path": "sub/key.txt"}), READ)
    assert (sub / ".agentignore").exists()
    assert "it changed sub/.agentignore: what was closed before stays closed in this session" in first
    assert not [text for text in texts if "planted" in text]
    assert "closed to the agent" in texts[1]


def test_a_list_that_is_a_link_stays_in_force_when_a_program_removes_it(world: World) -> None:
    laid_out(world, ".")
    (world.work / ".agentignore").rename(world.work / "list")
    (world.work / ".agentignore").symlink_to("list")
    first, second = told(world, "auto-edit", "os.remove('.agent' + 'ignore')", READ)
    assert "it changed .agentignore" in first and "planted" not in second
