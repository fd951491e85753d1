"""`time` and settings of the language in front of a command are looked through: what follows decides."""

import pytest

from agent_cli.policy.authorize import authorize
from agent_cli.protocol.actions import Allow, Ask, RunCommand
from tests.policy.support import ruled
from tests.policy.test_authorize import ROOT
from tests.rows import each_row


def verdict(line: str, mode: str = "ask") -> object:
    return authorize(RunCommand(line, ROOT), ruled(mode=mode, sandboxed=mode == "auto-edit"))  # type: ignore[arg-type]


@each_row(
    "line",
    [
        "time git status", "time -p cat a.txt", "time cat a.txt | wc -l", "cd src && time grep x a.txt",
        "LC_ALL=C sort a.txt", "env LC_ALL=C sort a.txt", "time LANG=C ls", "TZ=UTC date", "NO_COLOR=1 git diff",
        "GIT_PAGER=cat git log", "PAGER=cat git diff",
    ],
)  # fmt: skip
def test_a_reader_stays_one(line: str) -> None:
    assert isinstance(verdict(line), Allow)


@each_row(
    "line",
    [
        "time make test", "time PATH=/x cat a.txt", "time { cat a.txt; }", "time -p if true; then ls; fi",
        "time ! cat a.txt", "time (cat a.txt)", "time", "time -p time for i in 1; do ls; done", "MAGIC=.env file a.txt",
        "PAGER=x git log", "GIT_PAGER='cat x' git log", "GIT_PAGER=cat/x git log", "GIT_EDITOR=true$X git log", "GIT_EDITOR=true git commit", "A=1 cat a.txt", "LC_ALL=C LD_PRELOAD=x cat a.txt",
    ],
)  # fmt: skip
def test_everything_else_asks(line: str) -> None:
    assert isinstance(verdict(line), Ask)


@each_row(
    "line",
    [
        "time git checkout -- a.txt", "time sh -c 'git checkout -- a.txt'", "time -p git restore .", "time X=1 rm -rf ~/x",
        "true && time git push --force", "time PATH=/x ls",
    ],
)  # fmt: skip
def test_destruction_is_seen_behind_it(line: str) -> None:
    assert isinstance(found := verdict(line, "auto-edit"), Ask) and found.rule == "destruction"


@pytest.mark.parametrize(
    "line", ["env -i PATH=$PATH make", 'env -i PATH="$PATH" make', "env -i PATH=${PATH} make"]
)
def test_a_path_that_stays_as_it_is_changes_nothing(line: str) -> None:
    assert isinstance(verdict(line, "auto-edit"), Allow)


@pytest.mark.parametrize(
    "line",
    [
        "env -i PATH=$PATH:x make",
        "env -i PATH=$PATH: make",
        "env -i PATH=$PWD make",
        "PATH=$X make",
        "env LD_PRELOAD=$PATH make",
    ],
)
def test_one_that_changes_asks(line: str) -> None:
    assert isinstance(verdict(line, "auto-edit"), Ask)
