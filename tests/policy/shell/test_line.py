"""What a line needs before it runs, and what it does a second time when it runs again from its beginning."""

from agent_cli.policy.authorize import repeats_changes
from agent_cli.protocol.actions import Reach, RunCommand
from tests.policy.support import reach, ruled
from tests.policy.test_authorize import ROOT, kind, run
from tests.rows import each_row


@each_row(
    ("line", "repeats"),
    [
        ("make", False), ("cd sub && make", False), ("ls; make 2>&1 | tail -3", False), ("git status", False), ("env A=1 make", False),
        ("echo x >> log && make", True), ("make a; make b", True), ("make $X", True), ("for i in 1 2; do make; done", True),
    ],
)  # fmt: skip
def test_a_line_repeats_changes_if_several_commands_may_change_something(line: str, repeats: bool) -> None:
    for facts in (ruled(mode="auto-edit"), ruled("allow shell", mode="yolo")):
        assert repeats_changes(RunCommand(line, ROOT), facts) is repeats


@each_row(
    ("line", "wanted"),
    [
        ("npx playwright install", "network"), ("uv run git push", "outside"), ("poetry run pip install x", "network"),
        ("corepack npm publish", "outside"), ("tmux new -d make", "outside"), ("uv run pytest", "inside"), ("npx eslint .", "inside"),
        ("make && npx vercel", "network"), ("uv run --with httpie pytest", "network"), ("bundle exec rake", "inside"),
        ("uv run env A=1 curl https://x.y", "network"), ("npx timeout 5 git push", "outside"),
        ("npm ci --offline", "inside"), ("npm ci --offline=true", "inside"), ("npm ci --offline=false", "network"), ("npm ci --prefer-offline", "network"),
        ("pnpm install --frozen-lockfile --offline", "inside"), ("uv sync --offline", "inside"),
        ("bundle install --local", "inside"), ("bundle install --prefer-local", "network"),
    ],
)  # fmt: skip
def test_a_command_that_another_starts_needs_as_much_as_by_itself(line: str, wanted: Reach) -> None:
    assert reach(run(line, ruled())) == wanted


@each_row(
    ("line", "expected"),
    [
        ("echo 'curl x' > t.sh; sh t.sh", "ask"), ("echo 'curl x' > t.sh && chmod +x t.sh && ./t.sh", "ask"), ("echo x | tee t.sh; . ./t.sh", "ask"),
        ("echo x > t.sh; sh < t.sh", "ask"), ("make > log; tail log", "allow"), ("echo x > a && python3 b.py a", "allow"), ("sh t.sh > log; cat log", "allow"),
        ("echo x > in && python3 b.py < in", "allow"),
    ],
)  # fmt: skip
def test_a_file_that_the_line_writes_and_runs_cannot_be_checked_against_rules(line: str, expected: str) -> None:
    facts = ruled("deny shell(curl *)", "allow shell", "allow write", mode="yolo", sandboxed=False)
    assert kind(run(line, facts)) == expected
