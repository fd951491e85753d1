"""`agent permissions`: what would be allowed, asked or denied, by which rule of which file."""

import json

import pytest

from agent_cli.bootstrap import sandbox_setup
from agent_cli.sandbox.profile.confinement import EnforcedLevel
from tests.cli.running import Commands, said
from tests.e2e.world import Done, World
from tests.model.server import Reply
from tests.rows import each_row

RULES = """\
permissions:
  allow: ["shell(npm run *)", "write(src/**)"]
  ask:
    - shell(npm run deploy)
  deny:
    - shell(git push *)
    - write(src/generated/**)
"""


@pytest.fixture
def ruled(world: World) -> World:
    (world.config / "config.yaml").write_text(RULES, encoding="utf-8")
    return world


def test_the_list_names_each_rule_with_its_place(ruled: World) -> None:
    file = ruled.config / "config.yaml"
    done = ruled.run("permissions", "list")
    assert (done.code, done.err) == (0, "")
    assert [line for line in done.out.splitlines() if "# built in" not in line] == [
        f"allow  shell(npm run *)    # {file}:2",
        f"allow  write(src/**)    # {file}:2",
        f"ask    shell(npm run deploy)    # {file}:4",
        f"deny   shell(git push *)    # {file}:6",
        f"deny   write(src/generated/**)    # {file}:7",
    ]


def test_the_list_as_json_marks_what_is_built_in(ruled: World) -> None:
    done = ruled.run("permissions", "list", "--json", "--mode", "plan")
    listed = json.loads(done.out)
    assert listed["mode"] == "plan"
    own = [rule for rule in listed["rules"] if not rule["built_in"]]
    assert [rule["rule"] for rule in own][:2] == ["shell(npm run *)", "write(src/**)"] and len(own) == 5
    assert {"effect": "ask", "rule": "read(**/.env)", "place": "built in", "built_in": True} in listed["rules"]


EXPLAINED = (
    (["npm run test"], "allowed", ":2"),
    (["npm run deploy"], "asked", ":4"),
    (["git push origin main"], "denied", ":6"),
    (["npm run test && git push"], "denied", ":6"),
    (["git status"], "allowed", ""),
    (["make"], "asked", "mode ask"),
    (["make", "--mode", "yolo"], "allowed", "mode yolo"),
    (["make", "--mode", "plan"], "denied", "mode plan"),
    (["git", "push", "--force"], "denied", ":6"),
    (["--", "git", "push", "--write"], "denied", ":6"),
    (["--mode=yolo", "npm", "run", "deploy", "--mode", "production"], "asked", ":4"),
    (["grep", "-n", "a && make", "a.py"], "allowed", "read-only"),
    (["echo a && make", "--mode", "plan"], "denied", "mode plan"),
    (["--write", "src/a.py"], "allowed", ":2"),
    (["--write", "src/generated/a.py"], "denied", ":7"),
    (["--write", "src/generated/a.py", "--mode", "yolo"], "denied", ":7"),
    (["--write", "README.md"], "asked", "mode ask"),
    (["--read", "README.md"], "allowed", "reads in the workspace"),
    (["--read", ".env"], "asked", "built in"),
    (["--fetch", "https://example.org/a"], "asked", "mode ask"),
    (["--fetch", "example.org", "--mode", "plan"], "denied", "mode plan"),
)


def test_an_action_is_explained_by_the_rule_that_decides(ruled: World) -> None:
    ends = said(ruled, *(["permissions", "explain", *arguments] for arguments, _, _ in EXPLAINED))
    for (arguments, verdict, place), done in zip(EXPLAINED, ends, strict=True):
        first = done.out.splitlines()[0]
        assert (done.code, done.err, first.split(":")[0]) == (0, "", verdict), arguments
        assert place in first, arguments


def without_a_sandbox(world: World) -> None:
    with (world.config / "config.yaml").open("a", encoding="utf-8") as file:
        file.write("sandbox: off\n")


def test_a_longer_line_is_explained_command_by_command(ruled: World) -> None:
    without_a_sandbox(ruled)
    done = ruled.run("permissions", "explain", "npm run test && make | head")
    file = ruled.config / "config.yaml"
    assert done.out.splitlines() == [
        "asked: `make` may change things (mode ask); `shell(make)` would allow it",
        "  runs: once approved, without a sandbox",
        f"  npm run test: allowed: allow shell(npm run *) ({file}:2)",
        "  make: asked: `make` may change things (mode ask); `shell(make)` would allow it",
        "  head: allowed: known to be read-only",
        "  at worst: runs code of this project: npm run test; also runs code of this project: make",
    ]


def test_the_directory_of_a_command_counts(ruled: World) -> None:
    without_a_sandbox(ruled)
    (ruled.work / "src").mkdir()
    assert ruled.run("permissions", "explain", "cat ../a", "--cwd", "src").out.startswith("allowed: ")
    assert ruled.run("permissions", "explain", "cat ../a").out.startswith("asked: ")


def test_what_cannot_be_explained_is_wrong_usage(ruled: World) -> None:
    wrong = (
        [], ["ls", "--write", "a"], ["--fetch", "http://"], ["ls", "--mode", "x"], ["ls", "--cwd", "none"],
        ["--write", ""],
    )  # fmt: skip
    for done in said(ruled, *(["permissions", "explain", *arguments] for arguments in wrong)):
        assert (done.code, done.out, done.err[:7]) == (2, "", "agent: ")


def test_rules_kept_by_the_user_count_and_say_where_they_are(ruled: World) -> None:
    file = ruled.config / "permissions.json"
    file.write_text('{"allow": ["shell(make *)"]}', encoding="utf-8")
    assert f"allow  shell(make *)    # {file}: rule 1" in ruled.run("permissions", "list").out.splitlines()
    assert ruled.run("permissions", "explain", "make all").out.startswith("allowed: ")


def test_a_file_whose_rules_can_be_read_passes(ruled: World) -> None:
    done = ruled.run("permissions", "test", str(ruled.config / "config.yaml"))
    assert done == Done(0, "every rule can be read\n", "")


def test_each_broken_rule_is_told_with_its_line(world: World) -> None:
    path = world.work / "rules.yaml"
    path.write_text(
        "permissions:\n  allow: [shell(ls)]\n  deny:\n    - shel(rm)\n    - read(x\n    - write\n",
        encoding="utf-8",
    )
    form = "is not a rule; write NAME or NAME(PATTERN) with NAME one of shell, outside, read, write, fetch, mcp"
    expected = (
        f"rules.yaml:4: 'shel(rm)' {form}; did you mean `shell(...)`?\nrules.yaml:5: 'read(x' {form}\n"
        "2 rules cannot be read\n"
    )
    assert world.run("permissions", "test", "rules.yaml") == Done(2, expected, "")


EXAMPLES = """\
allow:
  - shell(npm run build)
  - write(src/a.py)
ask: [read(.env), shell(npm run deploy), fetch(example.org)]
deny:
  - shell(git push)
  - write(src/generated/a.py)
"""


def test_examples_that_hold_pass(ruled: World) -> None:
    (ruled.work / "examples.yaml").write_text(EXAMPLES, encoding="utf-8")
    assert ruled.run("permissions", "test", "examples.yaml") == Done(0, "7 examples passed\n", "")


def test_an_example_that_fails_is_told_with_its_line_and_the_rule_that_decides(ruled: World) -> None:
    (ruled.work / "examples.yaml").write_text(EXAMPLES + "  - shell(ls)\n  - read(a)\n", encoding="utf-8")
    assert ruled.run("permissions", "test", "examples.yaml") == Done(
        1,
        "examples.yaml:8: shell(ls): expected deny, got allow: known to be read-only\n"
        "examples.yaml:9: read(a): expected deny, got allow: reads in the workspace\n"
        "2 of 9 examples failed\n",
        "",
    )


def test_examples_may_stand_in_a_configuration_beside_its_rules(ruled: World) -> None:
    text = "permissions:\n  allow: [shell(ls)]\n  examples:\n    allow: [shell(ls)]\n    ask:\n      - shell(ls)\n"
    (ruled.work / "own.yaml").write_text(text, encoding="utf-8")
    done = ruled.run("permissions", "test", "own.yaml")
    assert (done.code, done.out.splitlines()[0]) == (
        1, "own.yaml:6: shell(ls): expected ask, got allow: known to be read-only",
    )  # fmt: skip


BAD_EXAMPLES = (
    ("allow: [bash]", "0.yaml:1: bash: 'bash' is not an example"),
    ("allow: [shell()]", "is not an example"),
    ("allow: shell(ls)", "must be a list"),
    ("allow: [1]", "must be a list of texts"),
    ("- shell(ls)", "write lists of examples under allow, ask and deny"),
    ("allow: [", "not valid YAML"),
    ("mode: ask", "neither examples"),
    ("alow: [shell(ls)]", "unknown key `alow`"),
    (
        "permissions: {examples: {allows: [shell(ls)]}}",
        "unknown key `permissions.examples.allows`; did you mean `allow`?",
    ),
)


def test_a_bad_file_of_examples_is_told_from_failing_ones(ruled: World) -> None:
    for number, (content, _) in enumerate(BAD_EXAMPLES):
        (ruled.work / f"{number}.yaml").write_text(content, encoding="utf-8")
    names = [*(f"{number}.yaml" for number in range(len(BAD_EXAMPLES))), "none.yaml"]
    *ends, missing = said(ruled, *(["permissions", "test", name] for name in names))
    for (content, told), done in zip(BAD_EXAMPLES, ends, strict=True):
        assert done.code == 2 and told in done.out + done.err, content
    assert missing.code == 2


@each_row("content", ["{", '{"allow": ["bogus("]}', '{"allow": [3]}'])
def test_damaged_kept_rules_are_an_error_and_not_no_rules(world: World, agent: Commands, content: str) -> None:
    (world.config / "permissions.json").write_text(content, encoding="utf-8")
    for command in (["permissions", "list"], ["run", "x"]):
        done = agent.run(*command)
        assert (done.code in (1, 2), done.out, done.err.count("\n"), done.err[:7]) == (True, "", 1, "agent: ")
    assert world.bodies() == []


@each_row("line", ["rm -rf src", "touch made", "make && touch made", "echo $(touch made)"])
def test_explaining_runs_and_writes_nothing(ruled: World, agent: Commands, line: str) -> None:
    agent.run("permissions", "explain", line)
    assert not ruled.state.exists() and list(ruled.work.iterdir()) == []


def test_where_a_sandbox_was_measured_it_is_told_how_a_command_would_run(ruled: World) -> None:
    strength = EnforcedLevel("bubblewrap", hides_inside=True, cuts_network=True)
    ruled.state.mkdir(exist_ok=True)
    sandbox_setup.keep(ruled.state, strength)
    for command, told in (
        ("make", "  runs: in the sandbox"),
        ("curl https://example.org", "  runs: once approved, in the sandbox, with the network"),
        ("cat .env", "  runs: once approved, outside the sandbox"),
    ):
        done = ruled.run("permissions", "explain", command, "--mode", "auto-edit")
        assert done.out.splitlines()[1] == told
    off = ruled.run("permissions", "explain", "make", "--mode", "yolo")
    assert off.out.splitlines()[1] == "  runs: without a sandbox"


def test_examples_in_the_configuration_stop_the_start_when_the_rules_do_not_say_so(world: World) -> None:
    file = world.config / "config.yaml"
    text = "permissions:\n  deny: ['shell(git push *)']\n  examples:\n    deny: [shell(git push origin main)]\n    ask:\n"
    file.write_text(text + "      - shell(git pull)\n", encoding="utf-8")
    world.script(Reply(text="done"))
    assert world.run("run", "go").code == 0
    file.write_text(text.replace("git push *", "git pushh *") + "      - shell(git pull)\n", encoding="utf-8")
    done = world.run("run", "go")
    assert done.code == 2 and f"{file}:4: shell(git push origin main): expected deny, got ask" in done.err
    assert world.run("permissions", "test", str(file)).code == 1
