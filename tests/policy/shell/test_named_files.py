"""A command that changes a protected file asks like a tool that does."""

from agent_cli.protocol.actions import Ask, Mode
from tests.policy.support import ruled
from tests.policy.test_authorize import kind, run
from tests.rows import each_row


@each_row(
    "line",
    [
        "cp x .git", "cp -r hooks .git/", "mv hooks .git", "rsync -a hooks .git/", "ln -s x .git", "unzip x -d .git", "tar xf x -C .git",
        "cp x .vscode/tasks.json", "tee sub/.envrc", "sed -i s/a/b/ .claude/settings.json", "mv a .idea", "rm -r .husky", "echo x > .hg/hgrc",
        "cp x sub/.hg/hgrc", "tee .sl/config", "cp x HEAD",
        "tar --directory=.git -xf x.tar", "tar -C.git -xf x.tar", "curl --output=.vscode/tasks.json https://x.y",
        "curl -fsSLo.envrc https://x.y", "unzip x -d.git",
        "cp --target-directory .vscode x", "mv --targ=.idea a b", "install -t.zed a", "cp -t .claude a b",
    ],
)  # fmt: skip
@each_row("mode", ["auto-edit", "yolo"])
def test_a_command_that_changes_a_protected_file_asks(line: str, mode: Mode) -> None:
    for sandboxed in (True, False):
        asked = run(line, ruled("allow shell", "allow write", mode=mode, sandboxed=sandboxed))
        assert isinstance(asked, Ask) and asked.rule == "protected path", asked


@each_row(
    "line",
    [
        "cp -r .git x", "tar czf x .git", "rsync -a .git/ x", "cp .vscode/tasks.json x", "ls .git .idea", "cat .hg/hgrc", "hg commit",
        "cp x hgrc", "cp x .hg/branch", "cp x sl/config", "cp x config",
    ],
)  # fmt: skip
def test_reading_it_and_files_of_similar_names_do_not(line: str) -> None:
    assert kind(run(line, ruled("allow shell", mode="yolo", sandboxed=False))) == "allow"
