"""How much of the machine a command gets, and that no command gets more than it is trusted with because another
one of its line needs that."""

import msgspec
import pytest

from agent_cli.policy.authorize import authorize, combine, may_leave, strictest
from agent_cli.protocol.actions import (
    Allow,
    Ask,
    CallExternal,
    Deny,
    Fetch,
    Mode,
    Reach,
    ReadPath,
    RunCommand,
    SendInput,
    WritePath,
)
from tests.policy.support import MODES, reach, ruled
from tests.policy.test_authorize import ROOT, kind, run
from tests.rows import each_row


@each_row(
    ("command", "wanted"),
    [
        ("make", "inside"), ("git commit -m x", "inside"), ("git add -A", "inside"), ("git stash", "inside"),
        ("git checkout -b x", "inside"), ("git push", "outside"), ("npm ci", "network"), ("curl https://x", "network"),
        ("ssh h ls", "outside"), ("rsync a h:b", "outside"), ("rsync a b", "inside"), ("gh pr list", "outside"),
        ("docker pull x", "outside"), ("docker ps", "outside"), ("apt install x", "outside"), ("sudo make", "outside"),
        ("npm i -g x", "outside"), ("cp a /opt/b", "outside"), ("echo x > /opt/b", "outside"), ("tee ~/b", "outside"),
        ("cp a /tmp/b", "inside"), ("echo x > /tmp/b", "inside"), ("cat /tmp/b", "inside"), ("rm -rf /tmp/b", "inside"),
        ("cat .env", "outside"), ("cat /etc/hosts", "inside"), ("rm -rf /opt/x", "outside"), ("rm -rf .", "outside"),
        ("git push --force", "outside"), ("git reset --hard", "inside"), ("npm publish", "outside"),
        ("git config core.pager x", "outside"), ("echo x > .git/config", "outside"), ("cd /opt && make", "outside"),
        ("git -C /opt commit -m x", "outside"), ("git clone u /opt/x", "network"), ("timeout 9 npm ci", "network"),
        ("bash -c 'git fetch'", "network"), ("npm ci && cat .env", "outside"), ("echo $(date)", "inside"),
        ("curl $URL", "network"), ("npm start & P=$!; sleep 1; curl -s localhost:3000/a | head -1; kill $P", "inside"),
        ('for i in $(seq 9); do curl -sf "http://localhost:$PORT/up" && break; done', "inside"), ("ssh-keygen-x $A", "inside"),
        ("curl localhost:1 $URL", "network"), ("curl localhost:1 & wget https://x/$A", "network"), ("curl localhost:1 x.org $A", "network"), ("x=$(cat a); make", "inside"), ("pip --version", "inside"), ("npm -v", "inside"),
        ("npm run install-all", "inside"), ("npm test", "inside"), ("git remote -v", "inside"), ("go build ./...", "inside"),
        ("git fetch", "network"), ("git pull origin main", "network"), ("git clone https://h/x", "network"), ("rsync a h::b", "network"),
        ("git clone git@h:x", "outside"), ("git fetch ssh://h/x main", "outside"), ("git push https://h/x", "outside"),
        ("npm init -y", "inside"), ("npm init vite", "network"), ("npm login", "outside"), ("npm view x", "network"),
        (". ~/.nvm/nvm.sh && nvm use 20 && npm test", "inside"), ("nvm ls", "inside"), ("nvm install 20", "outside"), ("nvm ls-remote", "network"),
        ("mise run lint", "inside"), ("mise exec -- node a.js", "inside"), ("mise up", "network"), ("asdf current", "inside"), ("rustup show", "inside"),
        ("pnpm i", "network"), ("pnpm add x", "outside"), ("pnpm -r --filter a up x", "outside"), ("pnpm run add", "inside"), ("pnpm add x --store-dir s", "network"),
        ("git remote add o u", "outside"), ("git remote", "inside"), ("git branch -m a b", "outside"), ("git branch -u o/a", "outside"),
        ("git branch a", "inside"), ("git branch -d a", "inside"), ("git checkout -t o/a", "outside"), ("git switch a", "inside"),
        ("git switch -c a", "inside"), ("git config user.name n", "outside"), ("git config user.name", "inside"), ("git -C src config user.name", "inside"),
        ("git config --local user.name n", "outside"), ("git config --unset user.name", "outside"), ("git config set a.b c", "outside"),
        ("git config --get-regexp a.b c", "inside"), ("git config --list", "inside"),
        ("git config -f a.ini a.b c", "inside"), ("git worktree add w", "outside"), ("git worktree list", "inside"),
        ("git submodule update --init", "outside"), ("git submodule status", "inside"), ("git -C src remote rm o", "outside"),
        ("npm start & sleep 1; kill %1", "inside"), ("make & kill -9 %% %make; wait", "inside"), ("kill 999 %1", "outside"),
        ("kill -9 999", "outside"), ("pkill %1", "outside"), ("go test ./...", "inside"), ("yarn test", "inside"), ("uv run pytest", "inside"), ("python -m pip list", "inside"),
    ],
)  # fmt: skip
@each_row("mode", ["ask", "auto-edit", "yolo"])
def test_a_command_reaches_as_far_as_it_needs(command: str, wanted: Reach, mode: Mode) -> None:
    given = ruled(mode=mode)
    if command == "cat /etc/hosts" and mode == "yolo":
        wanted = "inside"
    assert reach(run(command, given)) == wanted


@each_row("command", ["git push", "npm ci", "curl https://x", "docker ps", "cp a /opt/b", "cd /opt && make"])
def test_what_the_sandbox_cannot_give_is_asked_for_in_auto_edit(command: str) -> None:
    verdict = run(command, ruled())
    assert isinstance(verdict, Ask) and verdict.rule == "mode auto-edit" and verdict.reach != "inside"


def test_the_question_says_why_and_offers_a_rule_that_is_enough() -> None:
    verdict = run("npm ci", ruled())
    assert verdict == Ask("mode auto-edit", "`npm ci` needs the network", "shell(npm ci)", "network", by_mode=True)
    assert run("npm ci", ruled("allow shell(npm ci)")) == Allow("allow shell(npm ci) (test)", "network")
    outside = run("gpg --list-keys", ruled())
    assert isinstance(outside, Ask) and outside.grant == "outside(gpg --list-keys)"
    assert kind(run("gpg --list-keys", ruled("allow shell(gpg *)"))) == "ask"
    allowed = run("gpg --list-keys", ruled(f"allow {outside.grant}"))
    assert isinstance(allowed, Allow) and allowed.reach == "outside"


@each_row(
    ("rules", "line", "wanted"),
    [
        (("allow shell(git fetch)",), "git fetch && python evil.py", "ask"),
        (("allow shell(git fetch)",), "git fetch & python evil.py", "ask"),
        (("allow shell(git fetch)",), "python evil.py | git fetch", "ask"),
        (("allow shell(git fetch)",), "git fetch && git status", "allow"),
        (("allow shell(git fetch)",), "git fetch && cat a | head", "allow"),
        (("allow shell(git fetch)", "allow shell(npm test)"), "git fetch && npm test", "allow"),
        (("allow outside(docker *)",), "docker ps", "allow"),
        (("allow outside(docker *)",), "docker ps && python evil.py", "ask"),
        (("allow outside(docker *)",), "docker ps && cat a", "allow"),
        (("allow outside(docker *)", "allow shell(npm test)"), "docker ps && npm test", "ask"),
        (("allow outside(docker *)", "allow outside(npm test)"), "docker ps && npm test", "allow"),
        (("allow outside(docker *)",), "docker ps && cat *", "ask"),
        (("allow shell(git fetch)",), "git fetch && cat *", "allow"),
        (("allow shell(git fetch)",), "git fetch && echo $(python evil.py)", "ask"),
        (("allow shell(git fetch)",), "git fetch && bash -c 'python evil.py'", "ask"),
    ],
)  # fmt: skip
def test_no_command_rides_out_of_the_sandbox_on_another(rules: tuple[str, ...], line: str, wanted: str) -> None:
    assert kind(run(line, ruled(*rules))) == wanted


def test_a_question_covers_what_all_parts_need() -> None:
    verdict = run("npm ci && npm test && git fetch", ruled("allow shell(npm ci)"))
    assert isinstance(verdict, Ask) and verdict.reach == "network" and verdict.grant == ""
    verdict = run("git add -A && git commit -m x && git push", ruled())
    assert isinstance(verdict, Ask) and verdict.reach == "outside" and "your keys" in verdict.reason
    verdict = run("echo x > a && git commit -am x && git push", ruled(mode="ask"))
    assert isinstance(verdict, Ask) and verdict.reach == "outside" and "your keys" in verdict.reason


def test_what_needs_keys_of_the_user_has_the_network_alone_where_a_rule_decides() -> None:
    assert run("git push", ruled("allow shell(git push)")) == Allow("allow shell(git push) (test)", "network")
    closed = run("git push", ruled("deny outside"))
    assert closed == Ask(
        "mode auto-edit", "`git push` needs the network", "shell(git push)", "network", by_mode=True
    )
    asked = run("git push", ruled())
    assert isinstance(asked, Ask) and asked.grant == "outside(git push)"
    assert reach(run("git push", ruled("ask shell(git push)"))) == "outside"
    assert reach(run("git push", ruled(f"allow {asked.grant}"))) == "outside"
    assert reach(run("git push", ruled(mode="yolo", sandboxed=False))) == "network"


SIGNS = {"commit.gpgsign": "true", "tag.gpgsign": "yes"}
ALIASES = {
    "alias.ci": "commit -q",
    "alias.up": "push --quiet",
    "alias.st": "status -sb",
    "alias.w": "!git push",
    "alias.co": "checkout",
}
SSH = {"remote.origin.url": "git@h:x.git", "remote.up.url": "https://h/x", "remote.own.url": "file:///srv/x"}


@each_row(
    ("settings", "command", "wanted"),
    [
        (SIGNS, "git commit -qm x", "outside"), (SIGNS, "git -C src commit -m x", "outside"), (SIGNS, "git rebase main", "outside"),
        (SIGNS, "git merge a", "outside"), (SIGNS, "git cherry-pick a", "outside"), (SIGNS, "git tag v1", "outside"),
        (SIGNS, "echo x >> a && git commit -am 'as -S'", "outside"), (SIGNS, "git pull", "outside"),
        (SIGNS, "git commit --no-gpg-sign -m x", "inside"), (SIGNS, "git rebase --abort", "inside"), (SIGNS, "git tag -d v1", "inside"),
        (SIGNS, "git merge --ff-only a", "inside"), (SIGNS, "git -c commit.gpgsign=false commit -m x", "inside"),
        (SIGNS, "git add -A", "inside"), (SIGNS, "git stash", "inside"), (SIGNS, "git status", "inside"), (SIGNS, "make", "inside"),
        (SIGNS | {"gpg.format": "ssh", "user.signingkey": "~/.ssh/id.pub"}, "git commit -m x", "outside"),
        (SIGNS | {"gpg.format": "ssh", "user.signingkey": "~/keys/id.pub"}, "git commit -m x", "inside"),
        ({"commit.gpgsign": "false"}, "git commit -m x", "inside"), ({}, "git commit -m 'as -S'", "inside"), ({}, "git commit -sm x", "inside"),
        ({}, "git commit -S -m x", "outside"), ({}, "git commit --gpg-sign=AB -m x", "outside"), ({}, "git tag -s v1 -m x", "outside"),
        ({}, "git tag v1", "inside"), ({}, "git -c commit.gpgsign commit -m x", "outside"),
        (SIGNS | ALIASES, "git ci -m x", "outside"), (ALIASES, "git ci -m x", "inside"), (ALIASES, "git -C src up origin main", "outside"),
        (ALIASES, "git st", "inside"), (ALIASES, "git co -t o/a", "outside"), (ALIASES, "git co a", "inside"), (ALIASES, "git", "inside"), (ALIASES, "git w", "inside"),
        ({"alias.push": "status"}, "git push", "outside"), ({"alias.cherry-pick": "push"}, "git cherry-pick x", "inside"), ({"alias.a": "b", "alias.b": "push"}, "git a", "outside"),
        ({"alias.a": "b", "alias.b": "a"}, "git a", "inside"),
        (SSH, "git fetch", "outside"), (SSH, "git pull --rebase", "outside"), (SSH, "git pull origin main", "outside"),
        (SSH, "git fetch up", "network"), (SSH, "git fetch own", "network"), ({}, "git fetch", "network"),
    ],
)  # fmt: skip
def test_git_reaches_as_far_as_its_settings_need(settings: dict[str, str], command: str, wanted: Reach) -> None:
    given = ruled(git_setting=lambda folder, name: settings.get(name, ""))
    assert reach(run(command, given)) == wanted


@each_row("mode", ["auto-edit", "yolo"])
@each_row("alias", ["push --force", "reset --hard", "branch -D", "b"])
def test_an_alias_of_a_destructive_command_asks_in_every_mode(alias: str, mode: Mode) -> None:
    settings = {"alias.a": alias, "alias.b": "push -f"}
    given = ruled("allow shell", mode=mode, git_setting=lambda folder, name: settings.get(name, ""))
    for is_sandboxed in (True, False):
        asked = run("git a main", msgspec.structs.replace(given, sandboxed=is_sandboxed))
        assert isinstance(asked, Ask) and asked.rule == "destruction"


@each_row(
    ("command", "wanted"),
    [
        ("cd sub && echo x >> a; git add -A && git commit -qm x", "outside"), ("git -C sub stash", "outside"), ("git commit -m x", "inside"),
        ("cd sub && git status && git log", "inside"), ("cd sub && make", "inside"), ("cd sub && git clone ../a b", "network"),
    ],
)  # fmt: skip
def test_git_data_that_the_sandbox_holds_is_changed_outside(command: str, wanted: Reach) -> None:
    assert reach(run(command, ruled(git_is_read_only=lambda folder: folder.endswith("/sub")))) == wanted


def test_a_signature_is_no_reason_to_leave_where_nothing_may_or_nothing_holds_it() -> None:
    signs = {"git_setting": lambda folder, name: SIGNS.get(name, "")}
    assert reach(run("git commit -m x", ruled("deny outside", **signs))) == "inside"
    assert reach(run("git commit -m x", ruled("allow outside(git commit *)", **signs))) == "outside"
    assert reach(run("git commit -m x", ruled(mode="yolo", sandboxed=False, **signs))) == "inside"


@each_row("command", ["git remote add o u", "git branch -m a b", "git submodule update"])
def test_settings_of_a_repository_that_is_yet_to_be_made_can_be_written(command: str) -> None:
    settings = "changes settings of the repository"
    found = run(command, ruled())
    assert isinstance(found, Ask) and settings in found.reason
    assert settings not in str(run(command, ruled(is_repository=lambda folder: False)))
    assert settings not in str(run(command, ruled(mode="ask", sandboxed=False)))
    asks = [Ask("a", "r"), Allow("b", "network"), Allow("c", "inside")]
    assert reach(strictest(asks)) == "network" and reach(combine(asks)) == "network"
    assert reach(combine([Allow("a", "network"), Allow("b", "outside")])) == "outside"
    assert reach(combine([Ask("a", "r", "", "outside"), Ask("b", "s", "", "network")])) == "outside"


@each_row(
    ("rules", "command", "wanted"),
    [
        (("deny outside(docker *)",), "docker ps", "deny"),
        (("deny outside(docker *)", "allow outside"), "docker ps", "deny"),
        (("deny outside",), "cat .env", "deny"),
        (("deny outside",), "sudo make", "deny"),
        (("deny outside",), "echo x > /opt/a", "deny"),
        (("deny outside",), "make", "allow"),
        (("deny outside",), "echo $(date)", "allow"),
        (("deny outside",), "x=$(cat .env)", "deny"),
        (("deny outside",), "npm ci", "ask"),
        (("ask outside(docker *)", "allow outside"), "docker ps", "ask"),
        (("ask outside(gradle *)",), "gradle build", "ask"),
        (("ask outside",), "make", "allow"),
        (("ask outside", "allow outside(docker *)"), "docker ps", "ask"),
        (("allow outside(gradle *)",), "gradle build", "allow"),
        (("allow outside(gradle *)", "deny outside(gradle *)"), "gradle build", "allow"),
        (("allow outside",), "rm -rf /opt/x", "ask"),
        (("allow outside",), "cat .env", "ask"),
        (("allow outside(gradle *)", "deny shell(gradle *)"), "gradle build", "deny"),
    ],
)  # fmt: skip
def test_rules_on_leaving_the_sandbox(rules: tuple[str, ...], command: str, wanted: str) -> None:
    assert kind(run(command, ruled(*rules))) == wanted


def test_what_may_not_leave_runs_inside_when_it_can() -> None:
    assert reach(run("gradle build", ruled("allow outside(gradle *)"))) == "outside"
    assert reach(run("gradle build", ruled("allow outside(gradle *)", "deny outside(gradle *)"))) == "inside"


@each_row(
    ("rules", "line", "wanted"),
    [
        ((), "make", "ask"), (("allow outside(make *)",), "make", "allow"), (("deny outside",), "make", "deny"),
        (("allow outside(make *)",), "make && ls", "ask"), (("allow outside(make *)", "deny outside(ls *)"), "make && ls", "deny"),
        (("allow outside", "ask outside(make *)"), "make", "ask"), (("allow outside",), "make $X", "ask"),
        (("deny outside(make *)",), "make $X", "deny"),
    ],
)  # fmt: skip
def test_whether_a_command_may_run_again_without_the_sandbox(
    rules: tuple[str, ...], line: str, wanted: str
) -> None:
    assert kind(may_leave(RunCommand(line, ROOT), ruled(*rules))) == wanted


_SENDING = (
    Fetch("https://x.example/a", "x.example"),
    CallExternal("db", "query"),
    WritePath("/opt/a", "/opt/a"),
    RunCommand("git push", ROOT),
    RunCommand("curl $URL", ROOT),
    RunCommand("docker ps", ROOT),
    RunCommand("echo x > /opt/a", ROOT),
)


@each_row("action", _SENDING)
@each_row("sandboxed", [True, False])
def test_after_text_of_strangers_what_leaves_the_workspace_asks_whatever_allows_it(
    action: Fetch | CallExternal | WritePath | RunCommand, sandboxed: bool
) -> None:
    rules = ("allow fetch", "allow mcp", "allow write", "allow shell", "allow outside")
    for mode in ("ask", "auto-edit", "yolo"):
        before = ruled(*rules, mode=mode, sandboxed=sandboxed)
        after = msgspec.structs.replace(before, untrusted="evil.example")
        plain, guarded = authorize(action, before), authorize(action, after)
        assert isinstance(guarded, Ask), (mode, guarded)
        assert (guarded.rule, guarded.grant) == (plain.rule, "")
        assert "text from evil.example is in the conversation" in guarded.reason


def test_after_text_of_strangers_work_in_the_workspace_goes_on() -> None:
    given = ruled(untrusted="evil.example")
    for action in (
        WritePath(f"{ROOT}/a", "a"), ReadPath(f"{ROOT}/a", "a"), RunCommand("make", ROOT), RunCommand("git commit -m x", ROOT),
        RunCommand("ls", ROOT), RunCommand("echo $(date)", ROOT), SendInput("python", "1\n"),
    ):  # fmt: skip
        assert isinstance(authorize(action, given), Allow), action
    free = ruled(mode="yolo", sandboxed=False, untrusted="evil.example")
    assert isinstance(authorize(SendInput("bash", "x\n"), free), Ask)
    assert isinstance(authorize(RunCommand("X=cu; ${X}rl evil.example", ROOT), free), Ask)
    assert isinstance(authorize(RunCommand("make", ROOT), free), Allow)
    question = authorize(RunCommand("npm ci", ROOT), given)
    assert isinstance(question, Ask) and question.grant == "" and "evil.example" in question.reason


@pytest.mark.parametrize("mode", MODES)
def test_where_nothing_may_change_only_reading_runs(mode: Mode) -> None:
    given = ruled(
        "allow write", "allow shell", "allow outside", mode=mode, unwritable="/home/u is a home directory"
    )
    for action in (
        WritePath(f"{ROOT}/a", "a"), RunCommand("make", ROOT), RunCommand("ls > a", ROOT), RunCommand("echo $X", ROOT),
        RunCommand("git push", ROOT), RunCommand("ls && touch a", ROOT), SendInput("bash", "ls\n"), RunCommand("rm -rf .", ROOT),
        RunCommand("bash -c 'touch a'", ROOT),
    ):  # fmt: skip
        verdict = authorize(action, given)
        assert isinstance(verdict, Deny) and "/home/u is a home directory" in verdict.reason, action
    for action in (
        RunCommand("ls -la | head", ROOT),
        RunCommand("git log 2>/dev/null", ROOT),
        ReadPath(f"{ROOT}/a", "a"),
    ):
        assert isinstance(authorize(action, given), Allow), action
