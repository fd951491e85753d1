"""`grep -r` and `rg --hidden` are asked about only where they would open a file that a rule closes."""

import os
from pathlib import Path

import pytest

from tests.e2e.mechanisms import ANY, EACH, LANDLOCK_ONLY, NO_SANDBOX, on_x86_64
from tests.e2e.world import AGENT, Done, World, shell
from tests.model.server import Reply

SEARCHES = (
    "grep -rn needle .",
    "grep -r needle src",
    "rg --hidden needle",
    "rg -uu needle src",
    "grep -rl needle",
)


PATH = {"PATH": f"{Path(AGENT).parent}{os.pathsep}{os.environ['PATH']}"}
"""With the ripgrep that comes with the program."""


def _search(world: World, *commands: str, mode: str, before: tuple[str, ...]) -> Done:
    (world.work / "src").mkdir(exist_ok=True)
    (world.work / "src" / "a.txt").write_text("a needle\n", encoding="utf-8")
    world.script(*(shell(command) for command in commands), Reply(text="done"))
    return world.run("run", "go", "--mode", mode, "--output-format", "json", before=before, env=PATH)


@on_x86_64
@pytest.mark.parametrize(
    ("mode", "before"),
    [("plan", NO_SANDBOX), ("ask", LANDLOCK_ONLY), ("ask", NO_SANDBOX), ("auto-edit", ANY), ("yolo", ANY)],
)
def test_a_search_runs_where_no_file_is_closed(world: World, mode: str, before: tuple[str, ...]) -> None:
    done = _search(world, *SEARCHES, mode=mode, before=before)
    assert done.code == 0 and not done.result["denied"], done.result
    assert all("a needle" in text or "a.txt" in text for text in world.messages(role="tool")[-len(SEARCHES) :])


@on_x86_64
@pytest.mark.parametrize("mode", ["ask", "yolo"])
def test_one_that_would_open_a_secret_is_denied_and_one_beside_it_runs(world: World, mode: str) -> None:
    (world.work / ".env").write_text("KEY=needle-terces\n", encoding="utf-8")
    done = _search(world, "grep -rn needle .", "grep -r needle src", mode=mode, before=NO_SANDBOX)
    assert done.code == 6 and [each["rule"] for each in done.result["denied"]] == ["ask read(**/.env) (built in)"]
    assert "needle-terces" not in str(world.bodies()) and "a needle" in world.messages(role="tool")[-1]


@on_x86_64
@pytest.mark.parametrize("before", EACH)
def test_a_folder_that_a_rule_denies_is_never_searched(world: World, before: tuple[str, ...]) -> None:
    (world.work / "secret").mkdir()
    (world.work / "secret" / "f").write_text("needle-terces\n", encoding="utf-8")
    (world.config / "config.yaml").write_text('permissions: {deny: ["read(secret/**)"]}\n', encoding="utf-8")
    _search(world, *SEARCHES, "grep -r needle secret/f secret", mode="yolo", before=before)
    assert "needle-terces" not in str(world.bodies())


@on_x86_64
def test_what_is_made_between_two_searches_counts(world: World) -> None:
    made = "printf 'KEY=needle-%s' terces > .en''v"
    _search(world, "grep -r needle .", made, "grep -r needle .", mode="yolo", before=LANDLOCK_ONLY)
    assert "needle-terces" not in str(world.bodies())
