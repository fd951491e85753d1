"""With hosts that rules allow, what only loads by HTTP runs in the sandbox; the proxy decides there."""

import msgspec

from agent_cli.policy.authorize import Policy
from agent_cli.protocol.actions import Allow, Ask, Mode
from tests.policy.support import ruled
from tests.policy.test_authorize import kind, run
from tests.rows import each_row

LOADS = [
    "npm ci", "npm install left-pad", "npx -y create-x", "pip install x", "python3 -m pip install x", "pip download x",
    "uv sync", "uvx ruff", "poetry add x", "cargo fetch", "cargo add serde", "go get example.org/x", "go mod tidy",
    "curl https://example.org/a", "curl -sSfL example.org", "wget -q http://example.org", "git clone https://example.org/x",
    "git fetch https://example.org/x main", "pip install git+https://example.org/x", "timeout 9 npm ci", "npm ci && make",
    "bash -c 'curl example.org'", "bundle install", "composer install", "yarn", "CI=1 npm ci",
]  # fmt: skip
OTHERS = [
    "ssh h ls", "scp a h:", "rsync a h:b", "sftp h", "git push", "git push https://example.org/x", "git fetch origin",
    "git clone git@example.org:x", "git clone ssh://example.org/x", "git clone u@h:x", "npm publish", "npm login",
    "cargo publish", "uv publish", "poetry publish", "twine upload a", "gh pr list", "nc h 1", "ping h", "dig h",
    "curl ftp://example.org", "curl scp://example.org/a", "pip install git+ssh://git@example.org/x", "docker pull x",
    "npm i -g x", "npm ci && ssh h", "npm ci && git push", "psql -h db", "terraform apply", "apt install x", "rclone copy . r:",
]  # fmt: skip


def with_hosts(mode: Mode = "auto-edit") -> Policy:
    return ruled(mode=mode, has_hosts=True)


@each_row("command", LOADS)
def test_what_loads_by_http_runs_inside_where_hosts_are_allowed(command: str) -> None:
    verdict = run(command, with_hosts())
    assert isinstance(verdict, Allow) and verdict.reach == "inside", verdict
    before = run(command, ruled())
    assert isinstance(before, Ask) and before.reach == "network"


@each_row("command", OTHERS)
def test_what_goes_another_way_or_sends_in_ones_name_asks_as_ever(command: str) -> None:
    verdict = run(command, with_hosts())
    before = run(command, ruled())
    assert isinstance(verdict, Ask) and isinstance(before, Ask)
    assert (verdict.rule, verdict.reach) == (before.rule, before.reach)


@each_row("command", [*LOADS, *OTHERS])
@each_row("mode", ["plan", "ask"])
def test_other_modes_say_what_they_said(command: str, mode: Mode) -> None:
    assert run(command, with_hosts(mode)) == run(command, ruled(mode=mode))


@each_row("command", [*LOADS, *OTHERS])
def test_yolo_in_a_sandbox_that_was_asked_for_stays_in_it_as_auto_edit_does(command: str) -> None:
    confined, auto = run(command, with_hosts("yolo")), run(command, with_hosts())
    assert (kind(confined), confined.reach) == (kind(auto), auto.reach)  # type: ignore[union-attr]


@each_row("command", LOADS)
def test_without_a_sandbox_hosts_change_nothing(command: str) -> None:
    free = msgspec.structs.replace(with_hosts(), sandboxed=False)
    assert kind(run(command, free)) == "ask"


def test_rules_on_commands_come_first() -> None:
    denied, asked = ruled("deny shell(npm *)", has_hosts=True), ruled("ask shell(npm *)", has_hosts=True)
    assert (kind(run("npm ci", denied)), kind(run("npm ci", asked))) == ("deny", "ask")
