"""What a line needs before it runs, and what it does a second time when it runs again from its beginning."""

from agent_cli.policy.authorize import repeats_changes
from agent_cli.protocol.actions import Reach, RunCommand
from tests.policy.support import reach, ruled
from tests.policy.test_authorize import ROOT, run
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
    ],
)  # fmt: skip
def test_a_command_that_another_starts_needs_as_much_as_by_itself(line: str, wanted: Reach) -> None:
    assert reach(run(line, ruled())) == wanted
