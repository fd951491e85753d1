"""Every command that the documentation shows is run, by bash and with the program, forked (`tests.e2e.warm`), on a machine of its own:
a fresh home, a small project under git, a model that answers from a script.

* ```sh blocks have to end well, line for line (`set -eu`).
* ```console blocks hold commands behind `$ ` and what they print below; `…` stands for anything in a line, and alone
  in a line for any lines. What a command fails with is shown by `echo $?`.
* ```text blocks are not run; each has its reason in `NOT_RUN`.
"""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli.cli.commands.demo.run import PROJECT
from tests.cli.running import kept
from tests.docs.pages import Block, blocks
from tests.e2e.warm_command import WarmCommand
from tests.e2e.world import AGENT, Done, World, shell
from tests.extensions.skills.files import write_skill
from tests.model.server import Call, Reply
from tests.rows import each_row

ANY = Reply(text="Done.")
ANSWERS: dict[str, tuple[Reply, ...]] = {
    "how are its tests run?": (Reply(text="A basket with prices, in basket.py. Its tests: python3 -m unittest"),),
    "Run the release script.": (
        shell("./release.sh"),
        Reply(text="I may not run it here, so nothing was released."),
    ),
    "agent review --uncommitted": (Reply(text='{"findings": []}'),) * 2,
    "How risky is the last commit?": (Reply(text='{"risk": "low"}'),),
}
"""By words of a block: what the model answers to it, before it says `Done.` to everything."""
NOT_RUN: dict[str, str] = {
    "git clone … agent-cli && cd agent-cli": "takes the program from the network",
    "git clone … && cd agent-cli": "takes the program from the network",
    " you type ─▶ ui/repl ──(slash? ui/commands)──▶ Agent.submit(UserInput) ─▶ [submissions]": "a drawing",
    "            cli                  imports everything; nothing imports it": "a drawing",
    "model:  types < transport < wire < catalog, text_calls < wire/chat, wire/anthropic, wire/responses < litellm < *": "a drawing",
    "? Run  make test  here?": "a question on the screen",
    "config/local.json": "patterns in a file",
    "agent plugin add ./review": "asks, and takes plug-ins from the network",
    "python scripts/stations.py --list --check": "measures the repository, not what is installed",
    "tasks-batch/": "a listing",
    "harbor run -d terminal-bench@2.0 -m anthropic/claude-sonnet-4-5 -k 3 \\": "needs Harbor and containers",
    "pip install 'agent-cli[cluster]'": "takes packages from the network",
    "pip install 'agent-cli[otel]'": "takes packages from the network",
    "invoke_agent agent-cli          a turn": "a drawing",
    '2026-11-23 18:07:03.123 tool_call_started seq=12 call_id=call_1 tool=shell title="make test"': "lines of a log",
    "# by command": "needs several machines",
    "# by ssh, in a network that you trust": "needs several machines",
    "# Slurm: a file on the shared disk says where the scheduler is; other batch systems work the same way": "needs Slurm",
    """jq '(.findings[] | select(.id == "ef237acf0a70364c").status) = "dismissed"' review.json > reviewed.json""": "needs jq and an earlier review",
    'gh api "repos/$REPOSITORY/pulls/$NUMBER/reviews" --input pr-review.json': "posts to a forge",
    "on: pull_request": "a workflow",
    "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=agents-ca -addext keyUsage=critical,keyCertSign -keyout ca-key.pem -out ca.pem": "needs OpenSSL",
    "// Zed": "the configuration of an editor",
    "// JetBrains": "the configuration of an editor",
    "-- CodeCompanion": "the configuration of an editor",
    "-- avante.nvim": "the configuration of an editor",
    ";; agent-shell": "the configuration of an editor",
    "tar -xf agent-*.tar.xz -C /opt": "needs an archive that takes a minute to pack, and containers",
}
"""By the first line of a block: why it is no command."""
_END = "\x1e"


def project(folder: Path) -> None:
    """The project that commands work in: a basket, its tests, a Makefile, one commit and one change."""
    for file in ("basket.py", "test_basket.py"):
        (folder / file).write_text((PROJECT / file).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "Makefile").write_text("test build:\n\t@true\n", encoding="utf-8")
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "A basket"]):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "maintenance.auto=false", "-c", "user.email=x@x", *command],
            cwd=folder,
            check=True,
        )
    with (folder / "basket.py").open("a", encoding="utf-8") as file:
        file.write("\n# more to come\n")


def told(world: World) -> str:
    """A saved conversation of three prompts, called `ID` like the sessions of the documentation."""
    talk = ("the total is wrong", "It is rounded to cents now."), ("why?", "So the total stays whole.")
    path = kept(world, *talk, ("and the basket?", "It has a total; rounding is its own function."))
    assert world.run("sessions", "rename", path, "ID").code == 0
    return path


def turns(world: World) -> None:
    """Three turns, each of which has changed a file."""
    for number in range(3):
        written = Call("write_file", {"path": f"{'abc'[number]}.txt", "content": f"{number}\n"})
        world.script(Reply(calls=(written,)), ANY)
        done = world.run("run", "--mode", "auto-edit", *(["--continue"] if number else []), "go on")
        assert done.code == 0, done.err


def changed_since(world: World) -> None:
    """A turn, the file of which somebody has changed afterwards."""
    world.script(Reply(calls=(Call("write_file", {"path": "a.txt", "content": "a\n"}),)), ANY)
    assert world.run("run", "--mode", "auto-edit", "write a.txt").code == 0
    (world.work / "a.txt").write_text("mine\n", encoding="utf-8")


def exported(world: World) -> None:
    """A conversation as a file, and a folder to go on in."""
    told(world)
    assert world.run("sessions", "export", "ID", "-o", "talk.json").code == 0
    (world.home / "src" / "basket").mkdir(parents=True)


def skill(world: World) -> None:
    """A skill of the project."""
    write_skill(world.work / ".agents/skills/release")


def with_plugin(world: World) -> None:
    """An installed plug-in named `review`."""
    file = world.work / "review" / "commands" / "go.md"
    file.parent.mkdir(parents=True)
    file.write_text("Review the last commit.\n", encoding="utf-8")
    refused = world.run("plugin", "add", "./review")
    assert world.run("plugin", "add", "./review", "--yes-hash", refused.err.split()[-1]).code == 0


def with_worktree(world: World) -> None:
    """A worktree named `parser`, in which nothing was changed."""
    world.script(ANY)
    assert world.run("run", "-w", "parser", "go on").code == 0


PREPARED: dict[str, Callable[[World], object]] = {
    "agent sessions search": told,
    "agent resume ID": told,
    "agent sessions export ID": told,
    "agent sessions delete ID": told,
    "agent sessions import": exported,
    "agent plugin show": with_plugin,
    "agent worktree merge parser": with_worktree,
    "agent undo --list": turns,
    "agent skills show release": skill,
    "agent undo --resolve": changed_since,
}
"""By words of a block: what is there before it."""


def run(block: Block, world: World, script: str) -> Done:
    """Run a script of bash in the world."""
    project(world.work)
    for words, prepare in PREPARED.items():
        if words in block.text:
            prepare(world)
    for words, answers in ANSWERS.items():
        if words in block.text:
            world.script(*answers)
    world.script(*[ANY] * 20)
    with WarmCommand(AGENT) as command:
        path = os.pathsep.join((str(command.folder), str(Path(AGENT).parent), os.environ["PATH"]))
        places = {"PATH": path, "AGENT_MODEL": None, "ANTHROPIC_BASE_URL": world.server.url}
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, env=world.environment(places), cwd=world.work,
            timeout=120,
        )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.place)
def test_commands_end_well(block: Block, world: World) -> None:
    done = run(block, world, f"set -eu -o pipefail\n{block.text}")
    assert done.code == 0, f"{block.place}: {done.code}\n{done.out}\n{done.err}"


@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.place)
def test_commands_print_what_is_shown(block: Block, world: World) -> None:
    commands = re.split(r"(?m)^\$ ", block.text)
    assert commands[0] == "" and len(commands) > 1, f"{block.place}: begins with no command"
    asked, shown = zip(*(each.split("\n", 1) for each in commands[1:]), strict=True)
    told = "".join(f"{command}\ncode=$?; printf '{_END}'; (exit $code)\n" for command in asked)
    printed = run(block, world, f"exec 2>&1\n{told}").out.split(_END)
    for command, wanted, got in zip(asked, shown, printed, strict=False):
        assert fits(wanted, got), f"{block.place}: {command}\nshown:\n{wanted}\nprinted:\n{got}"


def fits(wanted: str, got: str) -> bool:
    """Whether an output is the one shown."""
    lines = [re.escape(line).replace("…", ".*") + "\n" for line in wanted.splitlines()]
    return re.fullmatch("".join("(?:.*\n)*" if line == ".*\n" else line for line in lines), got) is not None


def test_what_is_not_run_has_a_reason() -> None:
    assert {block.first: block.place for block in blocks("text")}.keys() == NOT_RUN.keys()
    assert all(NOT_RUN.values())


@each_row(
    ("wanted", "got", "is_so"),
    [
        ("a\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("a …\n", "a b c\n", True),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n…\nz\n", "a\nz\n", True),
        ("a.c\n", "abc\n", False),
        ("", "", True),
        ("", "a\n", False),
    ],
)
def test_what_is_printed_fits_what_is_shown(wanted: str, got: str, is_so: bool) -> None:
    assert fits(wanted, got) == is_so
