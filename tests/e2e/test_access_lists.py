"""Access lists (`.agentignore`) against programs that commands run, where bubblewrap can be had."""

from pathlib import Path

import pytest

from tests.e2e.world import World, shell
from tests.model.server import Reply

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


def told(world: World, mode: str, *programs: str) -> list[str]:
    """Run programs in one session, each as a command that names nothing; return what the model is told."""
    for at, source in enumerate(programs):
        (world.work / f"try{at}.py").write_text(f"import os\n{source}\n", encoding="utf-8")
    world.script(*(shell(f"python3 try{at}.py") for at in range(len(programs))), Reply(text="done"))
    done = world.run("run", "go", "--mode", mode, "--output-format", "json")
    assert done.result["denied"] == [], done.err
    return [record["text"] for record in world.records("tool_result")]


READ = "for name in ('sub/k' + 'ey.txt', 'sub.t' + 'xt'):\n    if os.path.exists(name): print(open(name).read())"


@pytest.mark.parametrize("mode", ["auto-edit", "yolo"])
@pytest.mark.parametrize("folder", ["sub", "."])
def test_a_list_in_any_folder_hides_files_from_programs(world: World, mode: str, folder: str) -> None:
    laid_out(world, folder)
    (text,) = told(world, mode, READ)
    assert "planted" not in text and "exit code" in text


@pytest.mark.parametrize("mode", ["auto-edit", "yolo"])
@pytest.mark.parametrize("folder", ["sub", "."])
def test_no_program_takes_a_list_away(world: World, mode: str, folder: str) -> None:
    sub = laid_out(world, folder)
    name = f"LIST = '{folder}/.agent' + 'ignore'\n"
    texts = told(world, mode, *(part for attack in ATTACKS.values() for part in (name + attack, READ)))
    assert not [text for text in texts if "planted" in text]
    assert (world.work / folder / ".agentignore").read_text(encoding="utf-8") == "key.txt\n"
    assert (sub / "key.txt").read_text(encoding="utf-8") == "planted"
