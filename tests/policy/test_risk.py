"""One line that says what an action could do at worst."""

import os
from pathlib import Path

import msgspec

from agent_cli.policy.risk import risk
from agent_cli.protocol.actions import CallExternal, Fetch, ReadPath, RunCommand, SendInput, StopCommand, WritePath
from tests.policy.test_authorize import ROOT, policy
from tests.rows import each_row

POLICY = policy()
COVERED = "undo restores it, but for large ignored folders such as node_modules"


@each_row(
    ("command", "said"),
    [
        ("ls -la | head", "only reads"),
        (
            "rm -rf build",
            f"deletes build below {ROOT}; undo restores it, but for large ignored folders such as node_modules",
        ),
        ("rm -rf ~/x", "deletes ~/x outside the workspace; undo does not restore that"),
        ("rm -rf ..", "deletes .. outside the workspace; undo does not restore that"),
        ("rm -rf ../x a", "deletes ../x outside the workspace; undo does not restore that"),
        (
            "find . -delete",
            f"deletes . below {ROOT}; undo restores it, but for large ignored folders such as node_modules",
        ),
        ("python x.py", "runs code of this project: python x.py"),
        ("./run.sh", "runs code of this project: ./run.sh"),
        ("python -c 'x'", "runs the program given here"),
        ("npm ci", "installs packages and runs their scripts"),
        ("pip install x", "installs packages and runs their scripts"),
        (
            "python3 -m venv v && source v/bin/activate && pip install x",
            "installs packages and runs their scripts; also runs code of this project: python3 -m venv v",
        ),
        ("npm test", "runs code of this project: npm test"),
        ("curl https://x", "sends data to the network, or downloads data"),
        ("git push", "publishes commits"),
        ("git push --force", "rewrites or deletes what others see of the repository"),
        ("git reset --hard", "discards work that is not committed, or history"),
        (
            "uv run git push --force",
            "rewrites or deletes what others see of the repository; also runs code of this project: uv run git push"
            " --force",
        ),
        ("uv run pytest", "runs code of this project: uv run pytest"),
        (
            "npx -c 'git push --force'",
            "rewrites or deletes what others see of the repository; also runs a program of a package, which may be"
            " fetched first",
        ),
        ("uv run bash -c ls", "runs code of this project: uv run bash -c ls"),
        (
            "cross-env A=1 kubectl delete x",
            "changes machines or services elsewhere; undo cannot reach them; also runs"
            " `cross-env`, of which nothing is known",
        ),
        ("fly apps destroy x", "changes machines or services elsewhere; undo cannot reach them"),
        ("git commit -m x", "changes the repository and runs its hooks"),
        (
            "sudo make",
            "acts as another user, limited only by that user's rights; also runs code of this project: make",
        ),
        ("docker run x", "reaches the whole machine through the container service"),
        ("ls > out", "overwrites or extends out"),
        ("cp a b", "changes b"),
        ("mv a b && npm publish", "publishes; that cannot be undone; also changes a, b"),
        ("sed -i s/a/b/ x y", "changes x, y"),
        ("sed 's/a/b/w x' y", "writes files or runs programs if these words tell `sed` to"),
        ("truncate -s 0 x", "changes x"),
        ("truncate -- -s x", "changes -s, x"),
        ("touch -r -d x", "changes x"),
        ("tar xf x.tar", "overwrites files, or runs programs that its options name"),
        ("timeout 5 ls", "only reads"),
        ("timeout 5 touch x", "changes x"),
        ("ls | xargs -n1 cat", "only reads"),
        ("nohup ./serve", "runs code of this project: ./serve"),
        ("nohup frobnicate > log", "overwrites or extends log; also runs `frobnicate`, of which nothing is known"),
        ("PATH=. ls", "runs `ls` with PATH set"),
        ("trap 'rm x' EXIT", "changes how the rest of the line runs"),
        ("awk '{print > \"x\"}' a", "runs the program given here"),
        ("frobnicate", "runs `frobnicate`, of which nothing is known"),
        (
            "bash -c 'rm x'",
            f"deletes x below {ROOT}; undo restores it, but for large ignored folders such as node_modules",
        ),
        ("cat $X", "not known in advance (a variable or substitution): anything this user may do"),
        ("X=1", "sets variables"),
        (": > ~/x", "overwrites or extends ~/x"),
        ("foo > a", "overwrites or extends a; also runs `foo`, of which nothing is known"),
        ("rm a > b", f"overwrites or extends b; also deletes a below {ROOT}; {COVERED}"),
        (
            "X=1; tar xf a && ./run.sh",
            "overwrites files, or runs programs that its options name; also runs code of this project: ./run.sh",
        ),
    ],
)
def test_a_command_is_told_by_the_gravest_it_could_do(command: str, said: str) -> None:
    assert risk(RunCommand(command, ROOT), POLICY) == said


def test_other_actions_have_their_line_too() -> None:
    assert "usually holds secrets" in risk(ReadPath(f"{ROOT}/.env", ".env"), POLICY)
    assert risk(ReadPath(f"{ROOT}/a", "a"), POLICY) == "shows a to the model's provider"
    assert risk(WritePath(f"{ROOT}/a", "a"), POLICY) == "changes a; undo restores it"
    assert risk(WritePath("/other/a", "/other/a"), POLICY) == "changes /other/a; undo does not restore that"
    assert "carries data" in risk(Fetch("https://x.example/?q=1", "x.example"), POLICY)
    assert "carries data" not in risk(Fetch("https://x.example/", "x.example"), POLICY)
    assert "db" in risk(CallExternal("db", "query"), POLICY) and "bash" in risk(SendInput("bash", "x"), POLICY)
    assert "make" in risk(StopCommand("make"), POLICY)


@each_row(
    ("command", "said"),
    [
        ("rm -rf /tmp/foo", "deletes /tmp/foo, temporary files of the sandbox"),
        ("rm -rf /tmp/foo /etc/x", "deletes /etc/x outside the workspace; undo does not restore that"),
        ("cd /tmp && rm -rf ../home/x", "deletes /home/x outside the workspace; undo does not restore that"),
        (
            "rm -rf build /tmp/foo",
            f"deletes build below {ROOT}; undo restores it, but for large ignored folders such as node_modules",
        ),
    ],
)
def test_the_private_tmp_of_the_sandbox_is_not_that_of_the_machine(command: str, said: str) -> None:
    assert risk(RunCommand(command, ROOT), policy(sandboxed=True), is_confined=True) == said
    assert "temporary files of the sandbox" not in risk(RunCommand(command, ROOT), policy(sandboxed=True))


@each_row(
    ("command", "said"),
    [
        ("cd build && rm -rf *", f"deletes * below {ROOT}/build; {COVERED}"),
        ("cd build\nrm -rf *", f"deletes * below {ROOT}/build; {COVERED}; also deletes * below {ROOT}; {COVERED}"),
        ("cd .. && rm -rf x", "deletes /w/x outside the workspace; undo does not restore that"),
        ("cd ..; rm -rf x", f"deletes /w/x outside the workspace; undo does not restore that; also deletes x below {ROOT}; {COVERED}"),
        ("! cd .. && rm x", f"deletes /w/x outside the workspace; undo does not restore that; also deletes x below {ROOT}; {COVERED}"),
        ("cd .. && ls || rm x", f"deletes /w/x outside the workspace; undo does not restore that; also deletes x below {ROOT}; {COVERED}"),
        ("if ls; then cd ..; fi && rm x", f"deletes /w/x outside the workspace; undo does not restore that; also deletes x below {ROOT}; {COVERED}"),
        ("for f in a; do ls; done && cd .. && rm x", "deletes /w/x outside the workspace; undo does not restore that"),
        ("cd a && cd .. && rm x", f"deletes x below {ROOT}; {COVERED}"),
        ("(cd .. && ls); rm x", f"deletes x below {ROOT}; {COVERED}"),
        ("cd .. && (ls) && rm x", "deletes /w/x outside the workspace; undo does not restore that"),
        ("cd ~/x && rm a", "deletes ~/x/a outside the workspace; undo does not restore that"),
        ("cd /etc && sh -c 'rm x'", "deletes /etc/x outside the workspace; undo does not restore that"),
        ("for d in a ../b; do rm -rf $d; done", "deletes ../b outside the workspace; undo does not restore that"),
        ("for d in a b c; do make $d; rm -rf ../$d; done", "deletes ../a, ../b, ../c outside the workspace; undo does not restore that; also runs code of this project: make a"),
        ("cd sub && ls; rm ../x", f"deletes ../x outside the workspace; undo does not restore that; also deletes ../x below {ROOT}/sub; {COVERED}"),
        ("ls || cd sub && rm ../x", f"deletes ../x outside the workspace; undo does not restore that; also deletes ../x below {ROOT}/sub; {COVERED}"),
        ("! cd sub && rm ../x", f"deletes ../x outside the workspace; undo does not restore that; also deletes ../x below {ROOT}/sub; {COVERED}"),
        ("cd a; cd b; cd c; cd d; rm -rf ../../x", "not known in advance (several changes of directory that may fail): anything this user may do"),
        ("rm x; curl y; sh -c 'rm $z'", f"not known in advance (a variable or substitution): anything this user may do; also deletes x below {ROOT}; {COVERED}"),
        ("eval " * 1900 + "ls", "not known in advance (shells inside shells): anything this user may do"),
        ("pushd / && rm x", "not known in advance (a change of directory that cannot be followed): anything this user may do"),
        ("command cd / && rm x", "not known in advance (a change of directory that cannot be followed): anything this user may do"),
        ("cd - && rm x", "not known in advance (a change of directory that cannot be followed): anything this user may do"),
    ],
)  # fmt: skip
def test_what_is_deleted_is_said_where_the_command_runs(command: str, said: str) -> None:
    assert risk(RunCommand(command, ROOT), POLICY) == said


def test_the_whole_workspace_is_restored_wherever_in_it_the_command_runs() -> None:
    below = RunCommand("rm -r ../x ~/work/y ..", f"{ROOT}/sub")
    several = msgspec.structs.replace(POLICY, roots=(ROOT, "/home/u/work"))
    assert risk(below, several) == f"deletes ../x, ~/work/y, .. below {ROOT}/sub; {COVERED}"
    at_home = msgspec.structs.replace(POLICY, roots=("/home/u",))
    assert "restores it" in risk(RunCommand("rm -r ~", "/home/u"), at_home)
    assert risk(below, POLICY) == "deletes ~/work/y outside the workspace; undo does not restore that"


@each_row(
    ("command", "said"),
    [
        ("cd link && rm -rf x", "deletes {root}/link/x outside the workspace; undo does not restore that"),
        ("rm -rf link/", "deletes link/ outside the workspace; undo does not restore that"),
        ("rm -rf link/.", "deletes link/. outside the workspace; undo does not restore that"),
        ("rm -rf link/x", "deletes link/x outside the workspace; undo does not restore that"),
        ("rm -rf link/../x", "deletes link/../x outside the workspace; undo does not restore that"),
        ("rm -rf link/*", "deletes link/* outside the workspace; undo does not restore that"),
        ("rm link", "deletes link below {root}; {covered}"), ("cd sub && rm -rf ../x", "deletes ../x below {root}/sub; {covered}"),
    ],
)  # fmt: skip
def test_what_is_deleted_through_a_link_is_said_where_it_leads(tmp_path: Path, command: str, said: str) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (root / "link").symlink_to(tmp_path / "other")
    in_place = msgspec.structs.replace(
        POLICY, roots=(str(root),), resolve=lambda word, cwd: os.path.realpath(os.path.join(cwd, word))
    )
    told = risk(RunCommand(command, str(root)), in_place)
    assert told == said.format(root=root, covered=COVERED)
