"""What earlier commands of a session have changed counts when the next one is judged."""

import msgspec
import pytest

from agent_cli.policy.authorize import authorize
from agent_cli.protocol.actions import Allow, Ask, Deny, Mode, ReadPath, RunCommand, SendInput, WritePath
from tests.policy.support import ruled
from tests.policy.test_authorize import ROOT, kind, policy
from tests.rows import each_row


def command(text: str, *, altered: tuple[str, ...] = (), shadowed: tuple[str, ...] = ()) -> RunCommand:
    return RunCommand(text, ROOT, altered, shadowed)


@each_row("text", ["cat a.txt", "git status", "grep x a.txt | cat", "env cat a.txt", "xargs cat"])
def test_a_reader_that_may_be_another_program_by_now_asks(text: str) -> None:
    plain = authorize(command(text), policy())
    assert isinstance(authorize(command(text, shadowed=("cat", "git", "xargs")), policy()), Ask)
    assert isinstance(authorize(command(text, shadowed=("*",)), policy()), Ask)
    for script, found in (("egrep x a", "grep"), ("npm --version", "node")):  # by the PATH as well
        assert isinstance(authorize(command(script, shadowed=(found,)), policy()), Ask)
        assert kind(authorize(command(script), policy())) == "allow"
    assert kind(authorize(command(text, shadowed=("python",)), policy())) == kind(plain)


@each_row("name", ["LD_PRELOAD", "GIT_EXTERNAL_DIFF", "BASH_ENV", "PAGER", "IFS", "HOME"])
def test_a_variable_that_makes_readers_run_others_asks(name: str) -> None:
    assert isinstance(authorize(command("git diff"), policy()), Allow)
    assert isinstance(authorize(command("git diff", altered=(name,)), policy()), Ask)
    assert isinstance(authorize(command("git diff", altered=(name,)), policy(mode="plan")), Deny)


def test_other_variables_and_an_own_rule_change_nothing() -> None:
    assert isinstance(authorize(command("git diff", altered=("VIRTUAL_ENV", "PATH", "A")), policy()), Allow)
    allowed = policy("allow shell(python *)")
    assert isinstance(authorize(command("python a.py", shadowed=("python",)), allowed), Allow)
    assert isinstance(authorize(command("rm -rf /", shadowed=("rm",)), policy(mode="yolo")), Ask)


@pytest.mark.parametrize(
    ("mode", "wanted"), [("plan", "deny"), ("ask", "ask"), ("auto-edit", "ask"), ("yolo", "allow")]
)
def test_input_for_a_running_command_is_never_known_to_read(mode: Mode, wanted: str) -> None:
    assert kind(authorize(SendInput("bash", "ls\n"), policy(mode=mode))) == wanted
    assert kind(authorize(SendInput("bash", "ls\n"), policy("allow shell(ls)", mode=mode))) == wanted


def test_rules_and_destruction_hold_for_input_too() -> None:
    assert isinstance(authorize(SendInput("bash", "cd /\nrm -rf /\n"), policy(mode="yolo")), Ask)
    denied = authorize(SendInput("bash", "true\ngit push\n"), policy("deny shell(git push *)", mode="yolo"))
    assert isinstance(denied, Deny) and "git push" in denied.rule
    assert isinstance(authorize(SendInput("bash", "git push"), policy("ask shell(git *)", mode="yolo")), Ask)


@pytest.mark.parametrize("mode", ["ask", "yolo"])
def test_a_closed_path_is_denied_to_every_tool(mode: Mode) -> None:
    closed = msgspec.structs.replace(
        policy("allow read(**)", "allow write(**)", mode=mode),
        hidden=lambda path, glob: ".agentignore:3" if path.startswith(f"{ROOT}/secret") else None,
    )
    path = f"{ROOT}/secret/key.txt"
    for action in (
        ReadPath(path, path), WritePath(path, path), command("cat secret/key.txt"), command("cp secret/key.txt b"),
        command("echo x > secret/key.txt"), command("cd secret && cat key.txt"), command("python x.py secret/key.txt"),
    ):  # fmt: skip
        verdict = authorize(action, closed)
        assert isinstance(verdict, Deny) and verdict.rule == ".agentignore:3", action
    assert isinstance(authorize(ReadPath(f"{ROOT}/a", "a"), closed), Allow)


@each_row(
    "name",
    [
        "XDG_CONFIG_HOME", "PYTHONUSERBASE", "RIPGREP_CONFIG_PATH", "JDK_JAVA_OPTIONS", "RUSTUP_TOOLCHAIN", "GOTOOLCHAIN",
        "npm_config_node_options", "PYTHONPYCACHEPREFIX", "LESSOPEN", "NODE_OPTIONS", "CDPATH", "MANPAGER",
    ],
)  # fmt: skip
def test_settings_that_readers_heed_make_them_ask(name: str) -> None:
    assert isinstance(authorize(command("git diff", altered=(name,)), policy()), Ask)


@each_row("name", ["NODE_ENV", "DATABASE_URL", "DEBUG", "RUST_LOG", "LANG", "VIRTUAL_ENV", "PS1", "CI"])
def test_settings_of_the_users_own_programs_change_nothing(name: str) -> None:
    assert isinstance(authorize(command("git diff", altered=(name,)), policy()), Allow)


@each_row(
    "line",
    [
        'export PATH="$HOME/.local/bin:$PATH"', "export PATH=$PATH:/usr/local/go/bin && go test ./...", "PATH=/a:~/b:${PATH} make",
        "GIT_EDITOR=true git rebase --continue", "GIT_SEQUENCE_EDITOR=: git rebase -i --autosquash main",
        "GIT_SEQUENCE_EDITOR=: git rebase -i $(git merge-base HEAD main)",
        "PYTHONPATH=src pytest", "export PYTHONPATH=src; pytest", 'PYTHONPATH="$PWD/src" pytest',
        "GIT_AUTHOR_DATE=2020-01-01T00:00:00 git commit -m x", 'GIT_COMMITTER_DATE="$(date -R)" git commit -m x',
    ],
)  # fmt: skip
def test_where_code_and_programs_are_and_who_commits_can_be_set_like_anything_else(line: str) -> None:
    assert isinstance(authorize(command(line), ruled(sandboxed=True)), Allow)
    assert isinstance(authorize(command(line), ruled(mode="yolo", sandboxed=False)), Allow)
    both = ruled("allow shell(pytest)", "allow shell(git commit *)", mode="ask")
    assert isinstance(authorize(command(line), both), Ask)


@each_row(
    "value", [".:$PATH", "bin:$PATH", "$PWD/bin:$PATH", "/a::$PATH", "/a", "$PATH:", "/a:$PATH:b", "$X:$PATH"]
)
def test_a_path_of_its_own_or_relative_to_the_folder_asks(value: str) -> None:
    for line in (f"export PATH={value}", f'PATH="{value}" make $X'):
        assert isinstance(authorize(command(line), ruled(sandboxed=True)), Ask), line


def test_a_rule_does_not_cover_a_function_of_that_name() -> None:
    allowed = policy("allow shell(make test)")
    plain = command("make test")
    assert isinstance(authorize(plain, allowed), Allow)
    for functions in (("make",), ("*",)):
        assert isinstance(authorize(msgspec.structs.replace(plain, functions=functions), allowed), Ask)
    assert isinstance(authorize(msgspec.structs.replace(plain, altered=("LD_PRELOAD",)), allowed), Ask)
    assert isinstance(authorize(msgspec.structs.replace(plain, functions=("other",)), allowed), Allow)
