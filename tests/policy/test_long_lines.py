"""Judging a line takes no longer than its length warrants, however it is made: a model may write long ones, and a
hostile file may make it write odd ones."""

from collections.abc import Callable

from tests.costs import assert_linear
from tests.policy.test_authorize import run
from tests.rows import each_row

from .support import ruled

Made = Callable[[int], str]
_UNREAD: dict[str, tuple[Made, int]] = {
    "pipes": (lambda n: "echo $X" + " | cat" * n, 500),
    "options": (lambda n: "echo $X" + " -c x" * n, 600),
    "verbs": (lambda n: "echo $X " + "git push reset clean kill chmod " * n, 190),
    "heredoc": (lambda n: "cat > a.md <<'E'\n" + "| a | b | curl -c x |\n" * n + "E", 500),
    "words": (lambda n: "echo $X " + " ".join(f"w{number}" for number in range(n)), 1_000),
    "letters": (lambda n: "echo $X -" + "r" * n, 5_000),
    "slashes": (lambda n: "echo $X |" + "/a" * n, 1_900),
    "runs": (lambda n: "uv run -a " * n + "$X", 100),
    "ends of runs": (lambda n: "uv run " * n + "$X", 66),
    "globs": (lambda n: "echo $X " + " ".join(f"a{number}*" for number in range(n)), 250),
}
_READ: dict[str, tuple[Made, int]] = {
    "options that take values": (lambda n: "npm " + "-C " * n + "zzz", 60),
    "others": (lambda n: "cargo " + "-w -C " * n, 40),
    "operands": (lambda n: "ls " + "a " * n, 560),
    "stages": (lambda n: "ls" + " | cat" * n, 170),
    "git": (lambda n: "git log " + "-" * n, 1_100),
    "wildcards": (lambda n: "cat " + "*a" * n + " " + "?b" * n, 25),
    "wrappers": (lambda n: "env " * n + "ls", 250),
    "quotes": (lambda n: "echo '" + "rm -rf " * n + "'", 150),
    "databases": (lambda n: "npx " + "psql " * n, 300),
    "secrets": (lambda n: "kubectl " + "get " * n, 300),
    "awk": (lambda n: "awk '{print " + "a " * n + "x'", 370),
}


@each_row(("made", "size"), [*_UNREAD.values(), *_READ.values()])
def test_a_line_costs_no_more_than_its_length(made: Made, size: int) -> None:
    """The largest are about as long as a line that is still read."""
    for given in (ruled(), ruled(mode="yolo", sandboxed=False), ruled(mode="plan")):
        assert_linear(lambda length: run(made(length), given), size)  # noqa: B023


def test_letters_of_options_cost_no_more_than_the_square_of_their_number() -> None:
    """A line that is read has 10,000 characters at most."""
    assert_linear(lambda count: run("grep -" + "a" * count + "!", ruled()), 300, power=2)
