"""A rule with a wildcard on a program that is given a program as text does not cover what that text may run."""

from agent_cli.protocol.actions import Allow
from tests.policy.support import ruled
from tests.policy.test_authorize import run
from tests.rows import each_row

COVERED = [
    "awk '{print $1}' f", "awk -F: '{s += $2} END {print s}' f", "sed s/a/b/ f", "sed -n 's/a/e/gp' f",
    "sed 's|eat|we|g' f", "sed 5q f", "zip -r a b", "gdb --batch ./prog", "vim -es f", "sed s/w/e/2 f",
]  # fmt: skip
RUNS = [
    "awk 'BEGIN{system(\"touch x\")}'", "awk '{print | \"sh\"}' f", "awk '{\"id\" | getline x}' f", "gawk '@load \"x\"' f",
    "awk '{print > \"/etc/x\"}' f", "mawk 'BEGIN{system (\"id\")}'", "sed s/a/id/e f", "sed 's|a|id|gew' f", "sed '1e id' f",
    "sed 'e' f", "sed -n '/x/w /tmp/out' f", "sed '$!N;s#a#b#2e' f", "zip a b -T -TT 'sh -c x'", "zip -rTT sh a b",
    "gdb -ex '!sh'", "gdb --eval-command=shell", "gdb -x script", "vim -c '!id' f", "vim +'!id' f", "sed '1r /etc/passwd' f",
]  # fmt: skip
_ALLOWED = [f"allow shell({name} *)" for name in "awk gawk mawk sed zip gdb vim".split()]


@each_row("line", COVERED)
def test_ordinary_uses_are_covered(line: str) -> None:
    assert isinstance(run(line, ruled(*_ALLOWED, mode="ask", sandboxed=False)), Allow)


@each_row("line", RUNS)
def test_a_text_that_runs_commands_or_names_files_is_asked_about(line: str) -> None:
    assert not isinstance(run(line, ruled(*_ALLOWED, mode="ask", sandboxed=False)), Allow)
