"""`agent permissions`: what would be allowed, asked or denied, by which rule of which file."""

from pathlib import Path

import pytest

from tests.e2e.world import Done, World

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


@pytest.mark.parametrize(
    ("arguments", "verdict", "place"),
    [
        (["npm run test"], "allowed", ":2"),
        (["npm run deploy"], "asked", ":4"),
        (["git push origin main"], "denied", ":6"),
        (["npm run test && git push"], "denied", ":6"),
        (["git status"], "allowed", ""),
        (["make"], "asked", "mode ask"),
        (["make", "--mode", "yolo"], "allowed", "mode yolo"),
        (["make", "--mode", "plan"], "denied", "mode plan"),
        (["--write", "src/a.py"], "allowed", ":2"),
        (["--write", "src/generated/a.py"], "denied", ":7"),
        (["--write", "src/generated/a.py", "--mode", "yolo"], "denied", ":7"),
        (["--write", "README.md"], "asked", "mode ask"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_action_is_explained_by_the_rule_that_decides(
    ruled: World, arguments: list[str], verdict: str, place: str
) -> None:
    done = ruled.run("permissions", "explain", *arguments)
    assert (done.code, done.err, done.out.split(":")[0]) == (0, "", verdict)
    assert place in done.out and done.out.count("\n") == 1


def test_rules_kept_by_the_user_count_and_say_where_they_are(ruled: World) -> None:
    file = ruled.config / "permissions.json"
    file.write_text('{"allow": ["shell(make *)"]}', encoding="utf-8")
    assert f"allow  shell(make *)    # {file}" in ruled.run("permissions", "list").out.splitlines()
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
    form = "is not a rule; write NAME or NAME(PATTERN) with NAME one of shell, read, write, fetch, mcp"
    expected = f"rules.yaml:4: 'shel(rm)' {form}\nrules.yaml:5: 'read(x' {form}\n2 rules cannot be read\n"
    assert world.run("permissions", "test", "rules.yaml") == Done(2, expected, "")


@pytest.mark.parametrize("content", ["{", '{"allow": ["bogus("]}', '{"allow": [3]}'])
def test_damaged_kept_rules_are_an_error_and_not_no_rules(world: World, content: str) -> None:
    (world.config / "permissions.json").write_text(content, encoding="utf-8")
    for command in (["permissions", "list"], ["run", "x"]):
        done = world.run(*command)
        assert (done.code in (1, 2), done.out, done.err.count("\n"), done.err[:7]) == (True, "", 1, "agent: ")
    assert world.bodies() == []


def test_explaining_writes_nothing(ruled: World, tmp_path: Path) -> None:
    ruled.run("permissions", "explain", "rm -rf src")
    assert not ruled.state.exists() and list(ruled.work.iterdir()) == []
