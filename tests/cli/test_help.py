"""Help, version, completion, and what a wrong command line gets."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import agent_cli
from agent_cli.bootstrap.options import COMMANDS, TABLES
from agent_cli.cli.app import SHELLS
from agent_cli.cli.commands.help import TOPICS
from tests.cli.running import Commands, kept, said
from tests.e2e.person import Person
from tests.e2e.world import AGENT, Done, World
from tests.model.server import Reply
from tests.rows import each_row
from tests.ui.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_one_line(world: World, option: str) -> None:
    assert world.run(option) == Done(0, f"agent-cli {agent_cli.__version__}\n", "")


@each_row("command", sorted(TABLES))
def test_help_tells_every_option_of_the_table(agent: Commands, command: str) -> None:
    done = agent.run(*([] if command == "agent" else [command]), "--help")
    assert (done.code, done.err) == (0, "")
    shown = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", done.out))
    wanted = {name for option in TABLES[command] for name in option.names}
    assert wanted <= shown, wanted - shown
    text = " ".join(done.out.split())
    for option in TABLES[command]:
        assert option.help in text
        assert f"{option.names[0]} {'|'.join(option.choices) or option.value}".rstrip() in text


def test_help_of_the_program_names_every_command(world: World) -> None:
    text = world.run("--help").out
    listed = re.findall(r"(?m)^  ([a-z]+)  +\S", text.partition("Commands:")[2])
    assert sorted(listed) == sorted([*COMMANDS, "run", "resume"])
    assert listed[:3] == ["run", "resume", "review"], "in the order of somebody who meets them"


def test_help_shows_whole_sentences_and_names_values_instead_of_types(world: World) -> None:
    lines = [[], ["run"], ["replay"], ["sessions"], ["sessions", "list"], ["undo"], ["permissions", "explain"]]
    for line, done in zip(lines, said(world, *([*line, "--help"] for line in lines)), strict=True):
        assert re.search(r"<\w+", done.out) is None, line
        assert "..." not in done.out.partition("\n")[2].replace("]...", ""), line
        assert max(map(len, done.out.splitlines())) <= 80, line


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
    ("help", "TOPIC"),
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


@each_row("group", ["config", "sessions", "batch"])
def test_a_group_without_a_command_shows_its_help_alone(agent: Commands, group: str) -> None:
    done = agent.run(group)
    assert (done.code, done.out) == (2, "") and done.err == agent.run(group, "--help").out


def test_help_is_found_behind_other_words_but_not_behind_two_dashes(world: World) -> None:
    assert world.run("a prompt", "-h").out.startswith("Usage: agent [OPTIONS]")
    assert world.run("run", "a task", "--quiet", "-h").out.startswith("Usage: agent run [OPTIONS] [TASK]")
    assert "unexpected" in world.run("run", "a", "--", "--help").err


def test_help_does_not_care_about_case(world: World) -> None:
    assert world.run("help", "Undo").out.startswith("Usage: agent undo")
    assert world.run("help", "MCP").out.startswith("# MCP servers")


NONE = (
    "there is no session with the ID or name '{}'; `agent sessions list --all` shows them all, and "
    "`agent sessions search WORD` finds one by what was said"
)
NO_MODEL = (
    "“typo” is not a model name: write PROVIDER/MODEL with a provider such as anthropic, openai, gemini, openrouter, "
    "xai, deepseek"
)
TOO_LONG = f"{'x' * 20}…: File name too long"
WRONG = (
    (["run", "--bogus", "x"], "unknown option --bogus; see --help"),
    (["run", "--model"], "--model needs a value"),
    (["one", "two"], "unexpected 'two'; put a prompt of several words in quotes"),
    (["run", "one", "two"], "unexpected 'two'; put a task of several words in quotes"),
    (["resume", "one", "two"], "unexpected 'two'; it takes one id; put a title of several words in quotes"),
    (["--mode", "plan", "run", "hi"], "options go after the command: agent run hi …"),
    (["--mode", "plan", "resume"], "`resume` comes first: agent resume …; its options follow it"),
    (["run", ""], "the task is empty"),
    (["--mode", "fast"], "--mode: 'fast' is not one of plan, ask, auto-edit, yolo"),
    (["run", "x", "-C", "nowhere"], "{here}/nowhere is not a directory"),
    (["run", "x", "--set", "modle=y"], "--set modle: unknown key `modle`; did you mean `model`?"),
    (["run", "x", "--config", "gone.yaml"], "{here}/gone.yaml: No such file or directory; check --config, which names it"),
    (["run", "x", "--resume", "zz"], NONE.format("zz")),
    (["run", "x", "--fork"], "--fork needs --continue or --resume"),
    (["sesions", "list"], "there is no command 'sesions'; did you mean `agent sessions list`?"),
    (["doctr"], "there is no command 'doctr'; did you mean `agent doctor`? As a prompt: `agent -- doctr`"),
    (["hlep"], "there is no command 'hlep'; did you mean `agent help`? As a prompt: `agent -- hlep`"),
    (["help", "zzz"], "there is no help on 'zzz'; `agent help` lists it all"),
    (["help", "sesions"], "there is no help on 'sesions'; did you mean `agent help sessions`?"),
    (["help", "se"], "there is no help on 'se'; did you mean `agent help security` or `agent help sessions` or `agent help serve`?"),
    (["sessions", "bogus"], "No such command 'bogus'; see `agent sessions --help`"),
    (["sessions", "lst"], "No such command 'lst'. Did you mean 'list'?"),
    (["sessions", "show"], "Missing argument 'ID'; see `agent sessions show --help`"),
    (["sessions", "show", "zz"], NONE.format("zz")),
    (["sessions", "show", ""], NONE.format("")),
    (["undo", "--session", "zz"], NONE.format("zz")),
    (["undo", "--bogus"], "No such option: --bogus; see `agent undo --help`"),
    (["doctor", "extra"], "Got unexpected extra argument(s) (extra); see `agent doctor --help`"),
    (["config", "explain", "x"], "there is no key 'x'; `agent config show` lists them all"),
    (["permissions", "explain"], "name one of: a command, --write PATH, --read PATH, --fetch URL"),
    (["permissions", "explain", "ls", "--mode", "x"], "--mode: 'x' is not one of plan, ask, auto-edit, yolo"),
    (["permissions", "explain", "--write", "a\nb"], "--write: the path 'a\\nb' contains control characters"),
    (["permissions", "test", "gone.yaml"], "gone.yaml: No such file or directory"),
    (["run", "x", "--set", "sessions.dir=~nobody-here/x"], "--set sessions.dir: the home directory in ~nobody-here/x is unknown"),
    (["run", "x", "--trace", "~nobody-here/x.jsonl"], "--trace {here}/~nobody-here/x.jsonl: its folder does not exist"),
    (["serve", "--stdio", "--trace", "~nobody-here/x.jsonl"], "--trace {here}/~nobody-here/x.jsonl: its folder does not exist"),
    (["run", "x", "-m", "replay/~nobody-here/x"], "cannot read the recording ~nobody-here/x: No such file or directory"),
    (["acp", "--set", "model=typo", "setup"], NO_MODEL),
    (["trace", "show", "x" * 300], NONE.format("x" * 300)),
    (["skills", "check", "x" * 300], f"{'x' * 300}: there is no such file or folder"),
    (["run", "x", "--output-file", "x" * 300], TOO_LONG),
    (["replay", "gone.json"], "cannot read session gone.json: No such file or directory"),
    (["--show-completion", "tcsh"], "--show-completion: 'tcsh' is not one of " + ", ".join(SHELLS)),
)  # fmt: skip


def test_a_wrong_command_line_is_one_line_and_exit_2(world: World) -> None:
    for (line, message), done in zip(WRONG, said(world, *(line for line, _ in WRONG)), strict=True):
        assert done == Done(2, "", f"agent: {message.format(here=world.work)}\n"), line
    assert world.bodies() == [], "nothing was asked of a model"


def test_a_folder_whose_name_is_too_long_is_one_line_too(world: World) -> None:
    for done in said(world, *(["run", "x", option, "x" * 300] for option in ("--cd", "--add-dir"))):
        assert done.code == 2 and re.fullmatch(r"agent: .*x+.*\n", done.err), done.err  # versions of Python differ


def test_a_word_that_is_not_close_to_a_command_is_a_prompt(world: World) -> None:
    world.script(Reply(text="Good day."), Reply(text="Good day."))
    for line in (["hello"], ["--", "doctr"]):
        assert "Good day." in world.run(*line).out
    assert [text.rpartition("\n")[2] for text in world.messages(0) + world.messages(1)] == ["hello", "doctr"]


NOTHING: dict[str, str | None] = {
    "AGENT_MODEL": None, "OPENAI_API_KEY": None, "OPENAI_BASE_URL": None, "OLLAMA_HOST": "127.0.0.1:9",
    **dict.fromkeys(("LM_STUDIO_API_BASE", "LLAMACPP_API_BASE", "HOSTED_VLLM_API_BASE"), "http://127.0.0.1:9/v1"),
}  # fmt: skip
"""Neither a key nor a server."""


@pytest.mark.parametrize("line", [["run", "hi"], [], ["a prompt"]])
def test_without_a_key_there_are_three_ways_to_go_on(world: World, line: list[str]) -> None:
    done = world.run(*line, env=NOTHING)
    assert (done.code, done.out) == (3, "")
    for way in ("no key is set, and no local server answers", "export ANTHROPIC_API_KEY=", "Ollama", "agent demo"):
        assert way in done.err
    assert "`agent doctor`" in done.err and "`agent help getting-started`" in done.err
    assert max(map(len, done.err.splitlines())) <= 80


def test_on_a_terminal_it_is_the_same_page(world: World) -> None:
    env = {name: value for name, value in NOTHING.items() if value is not None}
    environment = {name: value for name, value in world.environment(env).items() if NOTHING.get(name, value)}
    argv = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), AGENT]
    with Terminal(f"import os\nos.execvp('env', {argv!r})", columns=80, rows=24) as terminal:
        terminal.wait("Enter to quit")
        terminal.send("\r")
        assert terminal.finish() == 3
    assert terminal.text.partition("Paste an API key")[0].rstrip() == world.run(env=NOTHING).err.rstrip()


def test_without_a_topic_help_lists_every_page_that_is_there(world: World) -> None:
    done = world.run("help")
    assert (done.code, done.err) == (0, "")
    listed = re.findall(r"(?m)^  ([a-z-]+)  +(\S.*)$", done.out)
    assert sorted(page for page, _ in listed) == PAGES
    assert dict(listed) == {page: TOPICS[page] for page in PAGES}


def test_help_needs_no_configuration_that_can_be_read(world: World) -> None:
    (world.config / "config.yaml").write_text("modle: x", encoding="utf-8")
    assert world.run("help", "configuration").code == 0


def test_a_page_that_is_piped_is_the_file_itself(world: World) -> None:
    asked = [[page] for page in PAGES] + [["prov"], ["getting", "started"], ["Security"]]
    pages = [*PAGES, "providers", "getting-started", "security"]
    for name, done in zip(pages, said(world, *(["help", *words] for words in asked)), strict=True):
        assert done == Done(0, (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"), "")


@each_row("words", [["run"], ["undo"], ["sessions", "prune"]])
def test_help_on_a_command_is_what_the_command_says_of_itself(agent: Commands, words: list[str]) -> None:
    helped, told = agent.run("help", *words), agent.run(*words, "--help")
    assert helped == told and helped.code == 0 and helped.out.startswith(f"Usage: agent {' '.join(words)} ")


def test_words_that_name_no_page_lead_to_the_page_that_has_them(world: World) -> None:
    done = world.run("help", "exit", "codes")
    assert done == Done(
        2,
        "",
        "agent: there is no help on 'exit codes'; did you mean `agent help headless` or `agent help review`?\n",
    )


def shown(world: World, *arguments: str, rows: int, **env: str) -> Terminal:
    """A finished command line in a terminal."""
    terminal = Person(world, *arguments, columns=80, rows=rows, is_awaited=False, env=env)
    with terminal:
        assert terminal.finish() == 0, terminal.text
    return terminal


def test_on_a_terminal_a_page_is_drawn(world: World) -> None:
    drawn = shown(world, "help", "sessions", rows=400, PAGER="exit 3")
    assert b"\x1b[" in drawn.log and max(map(len, drawn.lines)) <= 80
    assert "# Sessions" not in drawn.text and "](" not in drawn.text
    assert "security (agent help security)" in " ".join(drawn.text.split())


def test_what_is_longer_than_the_screen_goes_through_the_pager(world: World) -> None:
    page = shown(world, "help", "sessions", rows=24, PAGER="cat; echo paged", MANPAGER="exit 3")
    assert page.text.rstrip().endswith("\npaged") and len(page.lines) > 100
    short = shown(world, "help", "sessions", rows=400, PAGER="cat; echo paged")
    assert "paged" not in short.text


@pytest.mark.parametrize("pager", ["", "cat"])
def test_no_pager_means_the_screen(world: World, pager: str) -> None:
    page = shown(world, "help", "sessions", rows=24, PAGER=pager)
    assert page.lines[0] == "Sessions" and len(page.lines) > 100


def test_a_wheel_brings_the_pages_along(world: World, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    inside = tmp_path / "site" / "agent_cli" / "docs"
    assert sorted(path.name for path in inside.iterdir()) == [f"{page}.md" for page in PAGES]
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import agent_cli; print(agent_cli.__file__, file=sys.stderr)\n"
        "from agent_cli.cli.main import run; sys.exit(run(['help', 'providers']))"
    )
    env = world.environment()
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, cwd=world.work)
    assert told.stderr.startswith(str(tmp_path)) and told.returncode == 0, told.stderr
    assert told.stdout == (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")


@each_row("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_a_shell_is_shown(agent: Commands, shell: str) -> None:
    done = agent.run("--show-completion", shell)
    assert (done.code, done.err) == (0, "")
    assert "_AGENT_COMPLETE=complete_" + shell in done.out


COMPLETED = (
    ("agent se", ["serve", "sessions", "setup"]),
    ("agent he", ["help"]),
    ("agent sessions de", ["delete"]),
    ("agent run --output-fo", ["--output-format"]),
    ("agent run --output-format j", ["json"]),
    ("agent run --mode a", ["ask", "auto-edit"]),
    ("agent --sandbox ", ["off", "read-only", "workspace-write"]),
    ("agent resume --la", ["--last"]),
    ("agent replay --mode y", ["yolo"]),
    ("agent -m anthropic/claude-haiku-4-5-", ["anthropic/claude-haiku-4-5-20251001"]),
    ("agent batch run t --mode y", ["yolo"]),
    ("agent batch run t --keep f", ["failed"]),
    ("agent eval run s -m anthropic/claude-haiku-4-5-", ["anthropic/claude-haiku-4-5-20251001"]),
    ("agent eval export ", ["atif", "harbor", "swebench"]),
    ("agent undo --conflicts m", ["merge", "mine"]),
    ("agent permissions list --mode p", ["plan"]),
    ("agent acp --mode y", ["yolo"]),
    ("agent mcp serve --mode y", ["yolo"]),
    ("agent config get limits.turn", ["limits.turns"]),
    ("agent models anthropic/claude-haiku-4-5-", ["anthropic/claude-haiku-4-5-20251001"]),
    ("agent help ever", []),
    ("agent help prov", ["providers"]),
    ("agent help pe", ["permissions"]),
    ("agent config expl", ["explain"]),
)


@each_row(("typed", "offered"), COMPLETED)
def test_completion_offers_commands_options_and_values(agent: Commands, typed: str, offered: list[str]) -> None:
    words = {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = agent.run(env=words)
    assert (done.code, sorted(done.out.split()), done.err) == (0, offered, "")


def test_completion_offers_the_sessions_of_this_directory(world: World) -> None:
    here, other = kept(world, ("hi", "hello")), kept(world, ("hi", "hello"), cwd=world.home)
    for command in ("resume", "--resume", "undo --session", "trace show"):
        place = str(1 + len(command.split()))
        words = {"COMP_WORDS": f"agent {command} ", "COMP_CWORD": place, "_AGENT_COMPLETE": "complete_bash"}
        done = world.run(env=words)
        assert (done.code, done.out.split(), done.err) == (0, [here], ""), other


@each_row("command", ["resume", "sessions show", "sessions export", "sessions delete", "--resume"])
def test_completion_describes_sessions_by_their_titles(world: World, agent: Commands, command: str) -> None:
    here = kept(world, ("say hi: please", "hello"))
    done = agent.run(env={"_AGENT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"agent {command} "})
    assert (done.code, done.err) == (0, "") and here in done.out and "say hi" in done.out
    done = agent.run(env={"_AGENT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"agent {command} zz"})
    assert here not in done.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_completion_works_in_bash_itself(world: World) -> None:
    script = (
        'eval "$(agent --show-completion bash)"\n'
        "complete -p agent\n"
        "COMP_WORDS=(agent run --mode pl); COMP_CWORD=3\n"
        "$(complete -p agent | sed 's/.*-F \\([^ ]*\\) .*/\\1/') agent\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    path = f"{Path(AGENT).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        env=world.environment({"PATH": path}),
        timeout=90,
    )
    assert (done.returncode, done.stderr, done.stdout.splitlines()[1:]) == (0, "", ["plan"])
