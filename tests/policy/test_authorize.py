"""One decision function: deny beats ask beats allow, and no form of a path or command gets round it."""

import os
import subprocess
import tempfile
from itertools import permutations
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.policy.authorize import Policy, authorize, strictest
from agent_cli.policy.rules.rule import Rule, RuleError, Rules, parse_rule, split_rules
from agent_cli.protocol.actions import (
    Action,
    Allow,
    Ask,
    CallExternal,
    Deny,
    Fetch,
    Mode,
    ReadPath,
    RunCommand,
    Verdict,
    WritePath,
)
from tests.fuzz import tries
from tests.rows import each_row

ROOT = "/w/repo"


def policy(*rules: str, mode: Mode = "ask", sandboxed: bool = False) -> Policy:
    parsed = []
    for text in rules:
        effect, _, rule = text.partition(" ")
        parsed.append(parse_rule(rule, effect, "test"))  # type: ignore[arg-type]
    return Policy(
        mode=mode,
        rules=Rules(parsed),
        roots=(ROOT,),
        protected=("/home/u/.config/agent-cli", "/home/u/.local/state/agent-cli"),
        readable=("/home/u/.local/state/agent-cli/spill/s1",),
        home="/home/u",
        sandboxed=sandboxed,
        resolve=lambda word, cwd: os.path.normpath(os.path.join(cwd, word.replace("~", "/home/u", 1))),
    )


def run(command: str, given: Policy) -> Verdict:
    return authorize(RunCommand(command, ROOT), given)


def kind(verdict: Verdict) -> str:
    return type(verdict).__name__.lower()


@each_row(
    ("action", "plan", "ask", "auto", "yolo"),
    [
        (ReadPath(f"{ROOT}/a", "a"), "allow", "allow", "allow", "allow"),
        (ReadPath("/etc/hosts", "/etc/hosts"), "deny", "ask", "ask", "allow"),
        (WritePath(f"{ROOT}/a", "a"), "deny", "ask", "allow", "allow"),
        (WritePath("/etc/hosts", "/etc/hosts"), "deny", "ask", "ask", "allow"),
        (WritePath(f"{ROOT}/.git/config", ".git/config"), "deny", "ask", "ask", "ask"),
        (WritePath(f"{ROOT}/.agent/config.yaml", ".agent/config.yaml"), "deny", "ask", "ask", "ask"),
        (WritePath("/home/u/.config/agent-cli/config.yaml", "x"), "deny", "ask", "ask", "ask"),
        (ReadPath("/home/u/.local/state/agent-cli/spill/s1/o.txt", "x"), "allow", "allow", "allow", "allow"),
        (RunCommand("git status && ls src", ROOT), "allow", "allow", "allow", "allow"),
        (RunCommand("cat /etc/passwd", ROOT), "deny", "ask", "ask", "allow"),
        (RunCommand("make test", ROOT), "deny", "ask", "ask", "allow"),
        (RunCommand("echo $(date)", ROOT), "deny", "ask", "ask", "allow"),
        (RunCommand("rm -rf /w", ROOT), "deny", "ask", "ask", "ask"),
        (RunCommand("git push --force", ROOT), "deny", "ask", "ask", "ask"),
        (RunCommand("git reset --hard HEAD~1", ROOT), "deny", "ask", "ask", "ask"),
        (RunCommand("x=$(rm -rf ~)", ROOT), "deny", "ask", "ask", "ask"),
        (Fetch("https://example.org/x", "example.org"), "deny", "ask", "ask", "allow"),
        (CallExternal("db", "query"), "deny", "ask", "ask", "allow"),
    ],
)
def test_the_table_of_modes(action: Action, plan: str, ask: str, auto: str, yolo: str) -> None:
    modes: tuple[Mode, ...] = ("plan", "ask", "auto-edit", "yolo")
    assert [kind(authorize(action, policy(mode=mode))) for mode in modes] == [plan, ask, auto, yolo]


@each_row(("tool", "grant"), [("query", "mcp(db/query)"), ("*", ""), ("get*", ""), ("a/b", "mcp(db/a/b)")])
def test_always_for_one_tool_of_a_server_is_offered_only_if_it_covers_no_other(tool: str, grant: str) -> None:
    verdict = authorize(CallExternal("db", tool), policy())
    assert isinstance(verdict, Ask) and verdict.grant == grant


def test_auto_edit_runs_commands_only_where_a_sandbox_is_in_force() -> None:
    assert kind(run("make test", policy(mode="auto-edit", sandboxed=True))) == "allow"
    assert kind(run("make test", policy(mode="auto-edit"))) == "ask"
    assert kind(run("git clean -fdx", policy(mode="auto-edit", sandboxed=True))) == "ask"


@each_row("order", list(permutations(["deny shell(git *)", "ask shell(git *)", "allow shell(git *)"])))
@each_row("mode", ["ask", "auto-edit", "yolo"])
def test_deny_beats_ask_beats_allow_in_any_order(order: tuple[str, ...], mode: Mode) -> None:
    assert kind(run("git commit -m x", policy(*order, mode=mode))) == "deny"
    without_deny = [rule for rule in order if not rule.startswith("deny")]
    assert kind(run("git commit -m x", policy(*without_deny, mode=mode))) == "ask"


@each_row(
    "command",
    [
        "cat .env", "cat ./.env", "cat sub/../.env", "head -n1 /w/repo/.env", "sed -n 1p .env", "cp .env x",
        "tee x < .env", "grep KEY .env", "python3 .env", "cat .ENV", "ls; cat .env", "echo a | cat - .env",
        "cd sub && cat ../.env", "git diff --no-index a .env", "dd if=.env", "cat '.e'nv", 'cat ".env"',
        "cat \\.env", "env cat .env",
    ],
)  # fmt: skip
@each_row("mode", ["ask", "yolo"])
def test_a_denied_file_is_denied_to_every_command_form(command: str, mode: Mode) -> None:
    assert kind(run(command, policy("deny read(**/.env)", "allow shell", mode=mode))) == "deny", command


@each_row("command", ["cat .e*", "grep -r KEY .", "rg KEY", "cat $FILE", "git diff", "bash -c 'cat x$y'"])
def test_what_might_open_a_denied_file_is_asked_even_in_yolo(command: str) -> None:
    assert kind(run(command, policy("deny read(**/.env)", "allow shell(cat *)", mode="yolo"))) in ("ask", "deny")


@each_row(
    "action",
    [
        ReadPath(f"{ROOT}/.env", ".env"),
        ReadPath(f"{ROOT}/.env", "link-to-env"),
        ReadPath("/elsewhere/data", "sub/.env"),
        WritePath(f"{ROOT}/.env", "x"),
        ReadPath(f"{ROOT}/a/b/.env", "a/b/.env"),
    ],
)
def test_a_denied_file_is_denied_to_tools_by_real_and_by_written_path(action: Action) -> None:
    assert (
        kind(authorize(action, policy("deny read(**/.env)", "allow read", "allow write", mode="yolo"))) == "deny"
    )


@each_row(
    ("rule", "command", "expected"),
    [
        ("allow shell(npm run *)", "npm run build", "allow"),
        ("allow shell(npm run *)", "npm run", "allow"),
        ("allow shell(npm run *)", "npm runner", "ask"),
        ("allow shell(npm run *)", "npm run build && rm -rf x", "ask"),
        ("allow shell(npm run *)", "npm run build; curl x | sh", "ask"),
        ("allow shell(npm run *)", "npm run build > /etc/x", "ask"),
        ("allow shell(npm run *)", "npm run $(curl x)", "ask"),
        ("allow shell(npm run *)", "npm run build `curl x`", "ask"),
        ("allow shell(npm run *)", "LD_PRELOAD=./x.so npm run build", "ask"),
        ("allow shell(npm run *)", "npm run build\ncurl x", "ask"),
        ("allow shell(npm run *)", "npm run build & curl x", "ask"),
        ("allow shell(npm run *)", "npm run <(curl x)", "ask"),
        ("allow shell(npm run *)", "npm run build\u00a0; x", "ask"),
        ("allow shell(git log *)", "git log --oneline | head -5", "allow"),
        ("allow shell", "make all", "allow"),
        ("allow shell", "sudo make install", "ask"),
    ],
)
def test_an_allow_rule_covers_what_it_says_and_nothing_more(rule: str, command: str, expected: str) -> None:
    assert kind(run(command, policy(rule))) == expected


@each_row(
    "command",
    [
        "rg --pre=sh x", "find . -delete", "find . -exec rm {} ;", "git -c core.pager=sh log", "sed -i s/a/b/ x",
        "git diff --ext-diff", "git grep -Oless x", "sort -o out in", "tail -f log", "git stash", "uniq a b",
        "date -s tomorrow", "git branch -D x", "xxd -r a b", "awk 'BEGIN{system(\"x\")}'", "env", "git log --output=x",
        "grep -f /etc/passwd x", "ls > listing", "echo x >> notes", "yes | head", "cat a &", "git config -l",
        "set", "set -x", "set -a", "set -eo allexport", "set -o", "set +o noclobber", "set -- a", "set *",
    ],
)  # fmt: skip
def test_these_are_not_known_to_only_read(command: str) -> None:
    assert kind(run(command, policy(mode="plan"))) == "deny"


@each_row(
    "command",
    [
        "ls -la", "cat a b | head -3", "git log --oneline -5 && git diff HEAD~1", "grep -rn 'a|b' src", "pwd",
        "rg -n foo src 2>/dev/null", "find . -name '*.py' -type f", "wc -l a", "sed -n 1,20p a", "git show HEAD:a",
        "python3 --version", "cd src && ls", "git branch --show-current", "diff a b", "echo 'a; rm -rf /'",
        "ls --help", "rg --version", "curl --version && ssh -V 2>&1", "psql --version; ffmpeg -version",
        "set -e; ls", "set -euo pipefail\ncat a | head -3", "set +e; ls",
    ],
)  # fmt: skip
def test_these_are_known_to_only_read(command: str) -> None:
    assert run(command, policy(mode="plan")) == Allow("known to be read-only")


@each_row(
    ("command", "offered"),
    [
        ("npm run build", "shell(npm run build)"),
        ("npm run build --fast", "shell(npm run build *)"),
        ("git commit -m x", "shell(git commit *)"),
        ("pytest -q tests", "shell(pytest *)"),
        ("python3 -m pytest", "shell(python3 -m pytest)"),
        ("rm x", ""),
        ("./run.sh a", "shell(./run.sh a)"),
        ("make a && make b", "shell(make a); shell(make b)"),
        ("make a && make a", "shell(make a)"),
        (
            "cd src && source ../.venv/bin/activate && pytest -q | tail",
            "shell(source ../.venv/bin/activate); shell(pytest *)",
        ),
        ("make a && rm x", ""),
        ("make a && make b && make c && make d && make e", ""),
        ("make 'x);' 'shell(rm'", ""),
        ("ls && make a", "shell(make a)"),
        ("rm *.o", ""),
        ("X=1 make", ""),
        ("echo $X", ""),
    ],
)
def test_the_rule_offered_is_the_narrowest_useful_one(command: str, offered: str) -> None:
    verdict = run(command, policy())
    assert isinstance(verdict, Ask)
    assert verdict.grant == offered
    if offered:
        rules = (f"allow {rule}" for rule in split_rules(offered))
        assert kind(run(command, policy(*rules))) == "allow"


def test_every_verdict_names_what_decided() -> None:
    assert "test" in run("git push", policy("deny shell(git push *)")).rule
    assert run("make", policy()).rule == "mode ask"
    verdict = run("make", policy("ask shell(make *)", mode="yolo"))
    assert isinstance(verdict, Ask) and "shell(make *)" in verdict.rule


def test_nothing_to_judge_is_allowed_and_the_strictest_wins() -> None:
    assert kind(strictest(())) == "allow"
    assert kind(strictest((Allow("a"), Ask("b", "r"), Deny("c", "r"), Allow("d")))) == "deny"


def test_the_mode_has_allowed_a_line_of_which_it_has_allowed_a_part() -> None:
    for line in ("ls && make", "make; ls", "(cd src && make) | head"):
        verdict = run(line, policy(mode="yolo"))
        assert isinstance(verdict, Allow) and verdict.by_mode and verdict.rule == "mode yolo", line


@each_row("text", ["nonsense(x)", "shell(", "Bash(git *)", "", "shell)x("])
def test_a_rule_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(RuleError, match="not a rule"):
        parse_rule(text, "deny", "f")


def test_several_rules_in_one_text_are_those_on_commands_and_never_one_rule() -> None:
    assert split_rules("shell(a *); outside(b); shell(c)") == ("shell(a *)", "outside(b)", "shell(c)")
    for whole in ("write(a); shell(rm *)/**)", "shell(a;b)", "shell(a); b", "shell"):
        assert split_rules(whole) == (whole,)
    with pytest.raises(RuleError, match="several rules"):
        parse_rule("shell(a); shell(b)", "deny", "config.yaml:1")


_words = st.lists(
    st.sampled_from(
        ["cat", "rm", "-rf", "/", "~", ".env", "$X", "`id`", "$(id)", "&&", "|", ";", "&", ">", "<", "<<E", "\n", "'",
         '"', "\\", "{a,b}", "*", "if", "then", "(", ")", "ls", "git", "status", "#", "sudo", "x=1", "\u200b"]
    ),
    max_size=9,
)  # fmt: skip


def _programs_run(line: str) -> set[str]:
    """The names that a real shell looks for; none exists, so nothing happens but that."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        guard = (
            "PATH=/nonexistent; readonly PATH;"
            f" command_not_found_handle() {{ builtin printf '%s\\0' \"$1\" >>{log}; }};"
        )
        work = os.path.join(folder, "work")
        os.mkdir(work)
        subprocess.run(
            ["/bin/bash", "--norc", "-c", guard + "\neval \"$1\"", "bash", line],
            cwd=work, env={"HOME": work}, stdin=subprocess.DEVNULL, capture_output=True, timeout=90, check=False,
        )  # fmt: skip
        return set(Path(log).read_text("utf-8").split("\0")) if os.path.exists(log) else set()


def test_the_oracle_sees_what_a_shell_runs() -> None:
    assert _programs_run("r'm' x | cat && \\ls; sudo rm") >= {"rm", "cat", "ls", "sudo"}


@settings(max_examples=tries(150), deadline=None)
@given(words=_words, spaced=st.booleans())
def test_no_line_is_allowed_that_names_a_denied_program(words: list[str], spaced: bool) -> None:
    line = (" " if spaced else "").join(words)
    rules = policy("deny shell(rm *)", "deny read(**/.env)", "allow shell", mode="yolo")
    if isinstance(run(line, rules), Allow):
        assert "rm" not in _programs_run(line)


@given(line=st.text(max_size=60))
def test_any_text_gets_a_verdict(line: str) -> None:
    for mode in ("plan", "ask", "auto-edit", "yolo"):
        assert isinstance(run(line, policy(mode=mode)), Allow | Ask | Deny)


def test_policies_are_values() -> None:
    one = policy("deny shell(rm *)")
    assert msgspec.structs.replace(one, mode="plan").rules == one.rules
    assert isinstance(one.rules[0], Rule)


@each_row(
    "command",
    [
        "echo x > src/a.py", "tee src/a.py", "sed -i s/a/b/ src/a.py", "sed -i -e s/a/b/ src/a.py", "cp x src/a.py", "mv x src/a.py",
        "mv src/a.py x", "rm src/a.py", "touch src/a.py", "truncate -s0 src/a.py", "install x src/a.py", "ln -sf x src/a.py",
        "cd src && rm a.py", "chmod +x src/a.py", "find . -name x && tee SRC/A.PY", "patch src/a.py x", "env rm src/a.py",
        "bash -c 'rm src/a.py'", "cp -t src x", "dd of=src/a.py", "sed --in-place s/a/b/ src/a.py", "perl -pi -e s/a/b/ src/a.py",
    ],
)  # fmt: skip
@each_row("mode", ["ask", "auto-edit", "yolo"])
def test_a_file_that_may_not_be_changed_is_not_by_any_known_command(command: str, mode: Mode) -> None:
    for sandboxed in (False, True):
        given = policy("deny write(src/**)", "allow shell", mode=mode, sandboxed=sandboxed)
        assert kind(run(command, given)) == "deny"
    asked = policy("ask write(src/**)", "allow shell", mode=mode, sandboxed=True)
    assert kind(run(command, asked)) == "ask"
    assert kind(run("cat src/a.py", policy("deny write(src/**)", mode=mode))) == "allow"
