"""The command of `--verify`: it is confined as the commands of the model are, since it runs what the model wrote."""

import subprocess

import pytest

from tests.e2e.mechanisms import ANY, EACH_SANDBOX, NO_SANDBOX, on_x86_64
from tests.e2e.world import World, shell
from tests.model.server import Call, Reply

CHECK = """
mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit
echo spoiled > "$HOME/own" && echo outside
echo built > out.txt
test -z "${OPENAI_API_KEY+set}"
"""


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_verify_is_confined_as_commands_are(world: World, before: tuple[str, ...]) -> None:
    subprocess.run(["git", "init", "-q", str(world.work)], check=True)
    (world.home / "own").write_text("mine", encoding="utf-8")
    world.script(Reply(calls=(Call("write_file", {"path": "check.sh", "content": CHECK}),)), Reply(text="done"))
    options = ("--mode", "auto-edit", "--output-format", "json", "--verify", "sh check.sh")
    done = world.run("run", "ask", *options, before=before)
    assert done.result["verified"] is True and (world.work / "out.txt").exists(), done.err
    assert (world.home / "own").read_text(encoding="utf-8") == "mine"
    assert not (world.work / ".git" / "hooks" / "pre-commit").exists()


@pytest.mark.parametrize(
    ("mode", "before"), [("yolo", ANY), pytest.param("auto-edit", NO_SANDBOX, marks=on_x86_64)]
)
def test_verify_runs_without_a_sandbox_where_there_is_none(
    world: World, mode: str, before: tuple[str, ...]
) -> None:
    world.script(Reply(text="done"))
    check = f"echo built > {world.home}/out"
    done = world.run("run", "ask", "--mode", mode, "--output-format", "json", "--verify", check, before=before)
    assert done.result["verified"] is True and (world.home / "out").exists(), done.err


def test_verify_has_the_reach_that_its_line_declares(world: World) -> None:
    world.script(Reply(text="done"))
    check = f"touch {world.home}/proof"
    options = ("--mode", "auto-edit", "--set", "permissions.allow=[outside(touch *)]", "--output-format", "json")
    done = world.run("run", "ask", *options, "--verify", check)
    assert done.result["verified"] is True and (world.home / "proof").exists(), done.err


def test_a_rule_that_denies_holds_for_verify(world: World) -> None:
    world.script(Reply(text="done"))
    rule = "permissions.deny=[shell(touch *)]"
    done = world.run("run", "ask", "--set", rule, "--output-format", "json", "--verify", "touch proof")
    assert done.result["verified"] is False and not (world.work / "proof").exists()
    assert "deny shell(touch *)" in done.err


def test_the_functions_of_the_models_commands_do_not_reach_verify(world: World) -> None:
    world.script(shell("false() { true; }; cd /tmp; export PWN=1"), Reply(text="done"))
    check = 'false || test "$PWN$PWD" = "' + str(world.work) + '"'
    done = world.run("run", "ask", "--mode", "yolo", "--output-format", "json", "--verify", check)
    assert done.result["verified"] is True, done.err


def test_verify_ends_at_its_time_limit(world: World) -> None:
    world.script(Reply(text="done"))
    options = ("--set", "tools.shell.timeout_s=1", "--output-format", "json", "--verify", "sleep 61")
    done = world.run("run", "ask", *options)
    assert done.code == 8 and done.result["verified"] is False and "1 s" in done.err


def test_verify_changes_nothing_in_plan_mode(world: World) -> None:
    world.script(Reply(text="done"))
    check = 'python3 -c \'open("proof", "w")\'; echo ran'
    done = world.run("run", "ask", "--mode", "plan", "--output-format", "json", "--verify", check)
    assert done.result["verified"] is True and "ran" in done.err and not (world.work / "proof").exists()
