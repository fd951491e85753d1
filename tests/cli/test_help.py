"""Help, version, completion, and what a wrong command line gets."""

import re

import pytest

import agent_cli
from agent_cli.cli.app import SHELLS
from agent_cli.cli.options import COMMANDS, TABLES
from tests.e2e.world import Done, World

from .commands import said


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_one_line(world: World, option: str) -> None:
    assert world.run(option) == Done(0, f"agent-cli {agent_cli.__version__}\n", "")


@pytest.mark.parametrize("command", sorted(TABLES))
def test_help_tells_every_option_of_the_table(world: World, command: str) -> None:
    done = world.run(*([] if command == "agent" else [command]), "--help")
    assert (done.code, done.err) == (0, "")
    shown = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", done.out))
    wanted = {name for option in TABLES[command] for name in option.names}
    assert wanted <= shown, wanted - shown
    text = " ".join(done.out.split())
    for option in TABLES[command]:
        assert option.help in text.replace("read- only", "read-only")
        assert "|".join(option.choices) in text.replace("- ", "-").replace("read- only", "read-only")


def test_help_of_the_program_names_every_command(world: World) -> None:
    text = world.run("--help").out
    listed = re.findall(r"(?m)^  ([a-z]+)  +\S", text.partition("Commands:")[2])
    assert sorted(listed) == sorted([*COMMANDS, "run", "resume"])


HELP = (
    ("sessions", "list show delete"),
    ("permissions", "list explain test"),
    ("config", "show path explain init schema"),
    ("undo", "--session --list --dry-run"),
    ("redo", "--session --list --dry-run"),
    ("replay", "FILE --cd --mode"),
    ("models", "QUERY"),
    ("doctor", "Check whether a task could run here"),
    ("demo", "Needs no key and no network"),
    ("sessions list", "--all --json"),
    ("sessions show", "--json"),
    ("sessions delete", "--yes"),
    ("permissions explain", "COMMAND --write --mode"),
    ("permissions test", "FILE"),
)


def test_each_command_has_help(world: World) -> None:
    ends = said(world, *([*command.split(), "--help"] for command, _ in HELP))
    for (command, words), done in zip(HELP, ends, strict=True):
        assert (done.code, done.err) == (0, ""), command
        assert [word for word in words.split() if word.lower() not in done.out.lower()] == [], command


def test_help_is_found_behind_other_words_but_not_behind_two_dashes(world: World) -> None:
    assert world.run("a prompt", "-h").out.startswith("Usage: agent [OPTIONS]")
    assert world.run("run", "a task", "--quiet", "-h").out.startswith("Usage: agent run [OPTIONS] [TASK]")
    assert "unexpected" in world.run("run", "a", "--", "--help").err


NONE = (
    "no session begins with '{}' or is called so; `agent sessions list --all` shows them all, and "
    "`agent sessions search WORD` finds one by what was said"
)
WRONG = (
    (["run", "--bogus", "x"], "unknown option --bogus; see --help"),
    (["run", "--model"], "--model needs a value"),
    (["run", "one", "two"], "unexpected 'two'; put a prompt of several words in quotes"),
    (["run", ""], "the task is empty"),
    (["--mode", "fast"], "--mode: 'fast' is not one of plan, ask, auto-edit, yolo"),
    (["run", "x", "-C", "nowhere"], "{here}/nowhere is not a directory"),
    (["run", "x", "--set", "modle=y"], "--set modle: unknown key `modle`; did you mean `model`?"),
    (["run", "x", "--config", "gone.yaml"], "{here}/gone.yaml: No such file or directory"),
    (["run", "x", "--resume", "zz"], NONE.format("zz")),
    (["run", "x", "--fork"], "--fork needs --continue or --resume"),
    (["sessions", "bogus"], "No such command 'bogus'."),
    (["sessions", "show"], "Missing argument 'ID'."),
    (["sessions", "show", "zz"], NONE.format("zz")),
    (["sessions", "show", ""], NONE.format("")),
    (["undo", "--session", "zz"], NONE.format("zz")),
    (["undo", "--bogus"], "No such option: --bogus"),
    (["doctor", "extra"], "Got unexpected extra argument(s) (extra)"),
    (["config", "explain", "x"], "there is no key 'x'; `agent config show` lists them all"),
    (["permissions", "explain"], "name one of: a command, --write PATH, --read PATH, --fetch URL"),
    (["permissions", "explain", "ls", "--mode", "x"], "--mode: 'x' is not one of plan, ask, auto-edit, yolo"),
    (["permissions", "explain", "--write", "a\nb"], "--write: the path 'a\\nb' contains control characters"),
    (["permissions", "test", "gone.yaml"], "gone.yaml: No such file or directory"),
    (["replay", "gone.json"], "cannot read session gone.json: No such file or directory"),
    (["--show-completion", "tcsh"], "--show-completion: 'tcsh' is not one of " + ", ".join(SHELLS)),
)  # fmt: skip


def test_a_wrong_command_line_is_one_line_and_exit_2(world: World) -> None:
    for (line, message), done in zip(WRONG, said(world, *(line for line, _ in WRONG)), strict=True):
        assert done == Done(2, "", f"agent: {message.format(here=world.work)}\n"), line
    assert world.bodies() == [], "nothing was asked of a model"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_a_shell_is_shown(world: World, shell: str) -> None:
    done = world.run("--show-completion", shell)
    assert (done.code, done.err) == (0, "")
    assert "_AGENT_COMPLETE=complete_" + shell in done.out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("agent se", ["sessions"]),
        ("agent sessions de", ["delete"]),
        ("agent run --output-fo", ["--output-format"]),
        ("agent run --mode a", ["ask", "auto-edit"]),
        ("agent resume --la", ["--last"]),
    ],
)
def test_completion_offers_commands_options_and_choices(world: World, typed: str, offered: list[str]) -> None:
    words = {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = world.run(env=words)
    assert (done.code, done.out.split(), done.err) == (0, offered, "")
