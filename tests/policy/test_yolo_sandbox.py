"""In `yolo` a sandbox that was asked for is left only with a yes: by no word of a line, whatever stands beside it."""

from agent_cli.protocol.actions import Allow
from tests.policy.support import ruled
from tests.policy.test_authorize import run
from tests.rows import each_row

INSIDE = ["python3 r.py", "make test", "echo x > here", "ls | wc -l", "npm test"]
BEYOND = [
    "echo x > /outside/z", "touch /outside/z", "cd /outside && make", "cp a /outside/", "tee /outside/z",
    "docker ps", "systemctl restart x", "tmux new -d 'touch z'", "curl example.org", "git push", "ssh h ls",
    "cat <<< $(date) | bash -c 'curl example.org'",
]  # fmt: skip


@each_row("beyond", BEYOND)
@each_row("line", ["{}", "{}; python3 r.py", "python3 r.py && {}", "python3 r.py | {}", "({})"])
def test_a_line_that_needs_more_is_asked_about_as_a_whole(beyond: str, line: str) -> None:
    verdict = run(line.format(beyond), ruled(mode="yolo"))
    assert not isinstance(verdict, Allow) or verdict.reach == "inside", verdict


@each_row("line", INSIDE)
def test_what_can_be_done_in_it_runs_there(line: str) -> None:
    assert run(line, ruled(mode="yolo")).reach == "inside"  # type: ignore[union-attr]
    assert isinstance(run(line, ruled(mode="yolo")), Allow)


@each_row("line", [*INSIDE, "touch /outside/z", "curl example.org"])
def test_without_one_all_of_it_runs(line: str) -> None:
    assert isinstance(run(line, ruled(mode="yolo", sandboxed=False)), Allow)
