"""What a batch promises, with harm done to it: nothing that was edited is lost, nothing is run twice, the budget
holds, and a rate limit is nobody's failure."""

import contextlib
import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import answering, applied, batch, outcomes, repository, results, tasks_file, writes
from tests.e2e.world import World, shell, until
from tests.fuzz import only_long
from tests.model.server import Call, Received, Reply

WAIT_S = 60.0
PRICES = """providers:
  openai:
    models:
      mock-model: {prices: {input: 1, output: 1, cache_read: 1}}
"""


def _tasks(world: World, count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"t{number}", "prompt": f"write f{number}.txt: v{number}", "repo": str(world.work), **more}
        for number in range(count)
    ]


def _agents(world: World) -> list[int]:
    return world.alive(b"agent_cli\0run\0")


@pytest.mark.parametrize("seed", [0, *only_long(range(1, 200))])
def test_after_a_kill_the_same_command_runs_what_is_missing_and_nothing_else(
    world: World, own_tmp: None, seed: int
) -> None:
    chance = random.Random(seed)
    commit = repository(world.work)

    def answer(prompt: str, done: int) -> Reply:
        return Reply(text="done") if done else Reply(calls=writes(prompt, 0).calls, delay_s=chance.random() / 5)

    answering(world, answer)
    tasks, out = tasks_file(world, _tasks(world, 4, verify="test -f f*.txt")), world.home / "out"
    running = world.start("batch", str(tasks), "-o", str(out), "-j", "3")
    until(lambda: (out / "tasks").is_dir() and len(list((out / "tasks").iterdir())) > 0)
    time.sleep(chance.random() * 2.5)  # any moment
    running.kill()
    running.wait(WAIT_S)
    until(lambda: not _agents(world))
    before = {(each["id"], each["attempt"]) for each in results(out) if each["outcome"] == "solved"}
    again = batch(world, tasks, "-j", "3")
    assert again.code == 0, again
    found = results(out)
    for number in range(4):
        solved = [each for each in found if each["id"] == f"t{number}" and each["outcome"] == "solved"]
        assert len(solved) == 1, found
        assert (solved[0]["id"], solved[0]["attempt"]) in before or f"t{number}" not in {
            name for name, _ in before
        }
    for line in found:
        patch = out / "tasks" / line["id"] / str(line["attempt"]) / "patch.diff"
        if line["patch"] and line["patch"]["files"]:
            applied(patch, world.work, commit, world.home / "check")
        assert line["outcome"] in ("solved", "lost"), line
    folders = {f"{each.parent.name}/{each.name}" for each in (out / "tasks").glob("*/*")}
    assert folders == {f"{each['id']}/{each['attempt']}" for each in found}
    until(lambda: not _agents(world))


def _ends(prompt: str, done: int) -> Reply:
    """A model that edits a file first, and then ends in the way that the prompt names."""
    if not done:
        return writes(prompt, 0)
    kind = prompt.split()[-1]
    match kind:
        case "auth":
            return Reply(status=401, body={"error": {"message": "bad key"}})
        case "provider":
            return Reply(status=400, body={"error": {"message": "no such thing", "code": "bad"}})
        case "refused":
            return Reply(text="", finish="content_filter")
        case "limit":
            return Reply(calls=(Call("list_dir", {"path": "."}),))
        case "crash":
            return Reply(calls=(Call("shell", {"command": "kill -9 $PPID; pkill -9 -P 1 nothing"}),))
        case "stuck":
            return Reply(calls=(Call("read_file", {"path": "README.md"}),))
        case _:
            return Reply(text="done")


def test_whatever_the_end_the_edit_is_in_the_patch(world: World) -> None:
    world.may_refuse = True
    commit = repository(world.work)
    answering(world, _ends)
    kinds = ("auth", "provider", "refused", "limit", "stuck", "done", "unsolved", "verify_error")
    tasks = []
    for kind in kinds:
        task = {"id": kind, "prompt": f"write f.txt: edited {kind}", "repo": str(world.work)}
        more: dict[str, Any] = {
            "limit": {"max_turns": 2},
            "unsolved": {"verify": "false"},
            "verify_error": {"verify": "sleep 600", "verify_timeout_s": 0.5},
        }.get(kind, {})
        tasks.append({**task, **more})
    out = world.home / "out"
    done = batch(world, tasks_file(world, tasks), "-j", "4")
    assert done.code in (3, 9), done
    first = {each["id"]: each for each in results(out) if each["attempt"] == 1}
    assert {name: line["outcome"] for name, line in first.items()} == {name: name for name in kinds}, done
    for name, line in first.items():
        patch = out / "tasks" / name / "1" / "patch.diff"
        found = applied(patch, world.work, commit, world.home / "check")
        assert found["f.txt"] == f"edited {name}\n", line


def test_an_agent_that_is_killed_leaves_its_patch_and_no_temporary_file(world: World) -> None:
    commit = repository(world.work)
    asked: list[str] = []

    def answer(prompt: str, done: int) -> Reply:
        asked.append(prompt)
        return Reply(text="", hang="mid_stream") if done else writes(prompt, 0)

    answering(world, answer)
    out = world.home / "out"
    tasks = tasks_file(world, [{"id": "one", "prompt": "write f.txt: kept", "repo": str(world.work)}])
    temporary = world.home / "tmp"
    temporary.mkdir()
    running = world.start("batch", str(tasks), "-o", str(out), "--json", env={"TMPDIR": str(temporary)})
    until(lambda: len(asked) > 1)
    for pid in _agents(world):
        with contextlib.suppress(ProcessLookupError):  # it has ended with the one before
            os.kill(pid, signal.SIGKILL)
    asked.clear()
    until(lambda: len(asked) > 1)  # it is repeated on its own
    running.send_signal(signal.SIGINT)
    assert running.wait(WAIT_S) == 130
    lines = results(out)
    assert [each["outcome"] for each in lines] == ["crash", "cancelled"]
    for number in (1, 2):
        found = applied(out / f"tasks/one/{number}/patch.diff", world.work, commit, world.home / "check")
        assert found["f.txt"] == "kept\n"
    assert not _agents(world)
    until(lambda: not [*temporary.iterdir()])


def test_ctrl_c_pressed_again_and_again_loses_no_report(world: World) -> None:
    repository(world.work)
    asked: list[str] = []

    def answer(prompt: str, done: int) -> Reply:
        asked.append(prompt)
        return Reply(text="", hang="mid_stream")

    answering(world, answer)
    tasks = tasks_file(world, [{"id": "one", "prompt": "wait", "repo": str(world.work)}])
    (world.home / "below").mkdir()
    running = world.start("batch", str(tasks), "-o", str(world.home / "below" / ".." / "out"))
    until(lambda: bool(asked))

    def pressed() -> bool:
        running.send_signal(signal.SIGINT)
        return running.poll() is not None

    until(pressed)
    said, _ = running.communicate(timeout=WAIT_S)
    assert running.returncode == 130
    assert said.endswith("stopped: stopped by the user\nthe same command runs what is missing\n"), said
    assert f"results: {world.home / 'out'}\n" in said and (world.home / "out" / "report.json").exists()


def test_the_budget_holds_with_many_at_once(world: World) -> None:
    (world.config / "config.yaml").write_text(PRICES, encoding="utf-8")
    repository(world.work)
    spent: list[float] = []

    def answer(received: Received) -> Reply:
        spent.append(0.02)
        usage = {"prompt_tokens": 15_000, "completion_tokens": 5_000, "total_tokens": 20_000}
        return Reply(text="done", usage=usage, delay_s=0.05)

    world.server.answer = answer
    out, budget = world.home / "out", 0.12
    tasks = [{**task, "prompt": "nothing"} for task in _tasks(world, 24, max_cost=0.05)]
    done = batch(world, tasks_file(world, tasks), "-j", "32", "--budget", str(budget))
    assert done.code == 5, done
    assert len(spent) > 2 and sum(spent) <= budget  # two may begin; what they did not need lets others begin
    assert "stopped: budget" in done.out
    again = batch(world, tasks_file(world, tasks), "-j", "32", "--budget", str(budget))
    assert again.code == 5 and sum(spent) <= budget
    assert sum(each["cost_usd"] for each in results(out)) <= budget


def test_what_a_batch_costs_counts_towards_the_limit_of_a_day(world: World) -> None:
    (world.config / "config.yaml").write_text(PRICES + "limits: {day_cost_usd: 0.05}\n", encoding="utf-8")
    repository(world.work)
    usage = {"prompt_tokens": 10_000, "completion_tokens": 20_000, "total_tokens": 30_000}
    world.server.answer = lambda received: Reply(text="done", usage=usage)
    tasks = [{**task, "prompt": "nothing"} for task in _tasks(world, 4)]
    done = batch(world, tasks_file(world, tasks), "-j", "1")
    assert done.code == 8, done
    found = [each["outcome"] for each in results(world.home / "out")]
    assert found[0] == "done" and found[-2:] == ["limit"] * 2


def test_an_attempt_stopped_before_its_first_request_costs_nothing_and_says_which_limit_it_was(
    world: World,
) -> None:
    (world.config / "config.yaml").write_text(PRICES, encoding="utf-8")
    repository(world.work)
    out = world.home / "out"
    tasks = tasks_file(world, [{**task, "prompt": "nothing"} for task in _tasks(world, 3, max_cost=0.0001)])
    done = batch(world, tasks, "--budget", "0.00015")
    assert done.code == 8 and not world.bodies(), done
    assert [(each["outcome"], each["cost_usd"], each["turns"]) for each in results(out)] == [("limit", 0.0, 0)] * 3
    assert re.search(r"(?m)^limit     t0  .*\$0.0000  cost limit$", done.out)
    refused = batch(world, tasks, "--budget", "0")
    assert refused.code == 2 and "--budget: 0 is not greater than 0" in refused.err
    rest = batch(world, tasks_file(world, _tasks(world, 1, max_cost=0.5)), "--budget", "0.25")
    assert rest.code == 5 and "0.25 USD of it are left, and the next attempt may cost 0.5" in rest.out


def test_a_budget_for_a_model_without_prices_is_refused(world: World) -> None:
    repository(world.work)
    done = batch(world, tasks_file(world, _tasks(world, 1)), "--budget", "1")
    assert done.code == 2 and "no known prices" in done.err and not world.bodies()


def test_a_rate_limit_is_waited_for_and_is_nobodys_failure(world: World) -> None:
    repository(world.work)
    limited_s, times = 3.0, {"first": 0.0}
    during: list[str] = []

    def answer(received: Received) -> Reply:
        now = time.monotonic()
        times["first"] = times["first"] or now
        left = times["first"] + limited_s - now
        if left > 0:
            during.append(str(received.body["messages"]))
            return Reply(
                status=429, headers={"retry-after": str(int(left) + 1)}, body={"error": {"message": "slow down"}}
            )
        return Reply(text="done")

    world.server.answer = answer
    tasks = [{**task, "prompt": "nothing"} for task in _tasks(world, 4)]
    done = batch(world, tasks_file(world, tasks), "-j", "2")
    assert done.code == 0, done
    assert "asks to wait" in done.out
    found = results(world.home / "out")
    assert [each["outcome"] for each in found] == ["done"] * 4
    assert len(during) <= 2  # one request for each that was running when it began
    assert sum(each["waited_s"]["rate_limit"] for each in found) >= limited_s
    assert "waited" in done.out


def test_ctrl_c_saves_and_a_second_one_kills(world: World) -> None:
    commit = repository(world.work)
    asked: list[str] = []

    def answer(prompt: str, done: int) -> Reply:
        asked.append(prompt)
        return Reply(text="", hang="mid_stream") if done else writes(prompt, 0)

    answering(world, answer)
    out, tasks = world.home / "out", tasks_file(world, _tasks(world, 4))
    for signals in (1, 2):
        running = world.start("batch", str(tasks), "-o", str(out), "-j", "2")
        until(lambda: len(asked) >= 4)
        for _ in range(signals):
            running.send_signal(signal.SIGINT)
            time.sleep(0.1)
        code, said = running.wait(WAIT_S), running.stdout.read() if running.stdout else ""
        assert code == 130 and "the same command runs what is missing" in said
        asked.clear()
        until(lambda: not _agents(world))
    lines = results(out)
    assert [each["outcome"] for each in lines] == ["cancelled"] * 4, lines
    for line in lines:
        found = applied(
            out / f"tasks/{line['id']}/{line['attempt']}/patch.diff", world.work, commit, world.home / "c"
        )
        assert found[f"f{line['id'][1:]}.txt"] == f"v{line['id'][1:]}\n"


def test_two_at_one_folder_are_refused_and_cancel_ends_the_first(world: World) -> None:
    repository(world.work)
    answering(world, lambda prompt, done: Reply(text="", hang="mid_stream"))
    out, tasks = world.home / "out", tasks_file(world, _tasks(world, 1))
    running = world.start("batch", str(tasks), "-o", str(out))
    until(lambda: len(world.bodies()) > 0)
    second = batch(world, tasks)
    assert second.code == 2 and f"process {running.pid}" in second.err
    assert "running: process" in world.run("batch", "status", str(out)).out
    assert world.run("batch", "cancel", str(out)).code == 0
    assert running.wait(WAIT_S) == 143
    assert outcomes(out) == {"t0": ["cancelled"]}


def test_the_best_of_several_attempts_is_picked_and_the_others_stop(world: World) -> None:
    repository(world.work)
    seen: list[int] = []

    def answer(prompt: str, done: int) -> Reply:
        if done:
            return Reply(text="done")
        seen.append(1)
        return writes("write a.txt: " + ("good" if len(seen) > 2 else "bad"), 0)

    answering(world, answer)
    task = {"id": "one", "prompt": "do it", "repo": str(world.work), "verify": "grep -q good a.txt", "attempts": 5}
    out = world.home / "out"
    done = batch(world, tasks_file(world, [task]), "-j", "1")
    assert done.code == 0, done
    lines = results(out)
    assert [each["outcome"] for each in lines] == ["unsolved", "unsolved", "solved"]
    assert [each["picked"] for each in lines] == [False, False, True]


def test_setup_prepares_the_tree_and_its_failure_is_no_verdict(world: World) -> None:
    repository(world.work)
    answering(world, writes)
    good = {"id": "good", "prompt": "x", "setup": "echo made > made.txt", "verify": "test -f made.txt"}
    bad = {"id": "bad", "prompt": "x", "setup": "echo no; exit 3"}
    tasks = [{**task, "repo": str(world.work)} for task in (good, bad)]
    done = batch(world, tasks_file(world, tasks))
    assert done.code == 9, done
    out = world.home / "out"
    assert outcomes(out) == {"good": ["solved"], "bad": ["setup"] * 3}
    assert [each["cost_usd"] for each in results(out) if each["id"] == "bad"] == [0.0] * 3
    assert (out / "tasks/bad/1/setup.log").read_text(encoding="utf-8") == "no\n"
    assert len(world.bodies()) == 1


def test_json_lines_are_events(world: World) -> None:
    repository(world.work)
    answering(world, writes)
    done = batch(world, tasks_file(world, _tasks(world, 1)), "--json")
    kinds = [json.loads(line)["type"] for line in done.out.splitlines()]
    assert kinds[0] == "batch_began" and kinds[-1] == "attempt_ended" and "attempt_progressed" in kinds


def test_a_dry_run_shows_tasks_and_the_worst_case(world: World) -> None:
    commit = repository(world.work)
    path: Path = tasks_file(world, _tasks(world, 2, max_cost=1.5, attempts=2))
    done = batch(world, path, "--dry-run")
    assert done.code == 0 and commit[:10] in done.out and "at most $6.00" in done.out
    assert not (world.home / "out").exists() and not world.bodies()


def test_the_patch_session_and_cost_of_an_attempt_whose_batch_was_killed_are_saved(
    world: World, own_tmp: None
) -> None:
    (world.config / "config.yaml").write_text(PRICES, encoding="utf-8")
    commit = repository(world.work)
    asked: list[str] = []
    usage = {"prompt_tokens": 10_000, "completion_tokens": 5_000, "total_tokens": 15_000}

    def answer(prompt: str, done: int) -> Reply:
        asked.append(prompt)
        if done and len(asked) == 2:
            return Reply(text="", hang="mid_stream")
        return Reply(text="done", calls=writes(prompt, done).calls, usage=usage)

    answering(world, answer)
    tasks, out = tasks_file(world, _tasks(world, 1)), world.home / "out"
    running = world.start("batch", str(tasks), "-o", str(out))
    until(lambda: len(asked) == 2)
    running.kill()
    running.wait(WAIT_S)
    until(lambda: not _agents(world))
    assert batch(world, tasks).code == 0
    lost, done = results(out)
    assert (lost["outcome"], done["outcome"]) == ("lost", "done")
    assert lost["cost_usd"] == pytest.approx(0.015) and lost["cost_is_partial"]
    found = applied(out / "tasks/t0/1/patch.diff", world.work, commit, world.home / "check")
    assert found["f0.txt"] == "v0\n" and lost["patch"]["files"] == ["f0.txt"]
    assert json.loads((out / "tasks/t0/1/session.json").read_text(encoding="utf-8"))


def test_a_tree_whose_attempt_was_killed_while_it_was_judged_is_cleaned_with_the_others(
    world: World, own_tmp: None
) -> None:
    repository(world.work)
    answering(world, writes)
    begun, out = world.home / "begun", world.home / "out"
    waits = f"test -e {begun}.2 || (touch {begun}; sleep 600)"
    tasks = tasks_file(world, _tasks(world, 1, sandbox="off", verify=waits))
    running = world.start("batch", str(tasks), "-o", str(out))
    until(begun.exists)
    running.kill()
    running.wait(WAIT_S)
    (world.home / "begun.2").touch()
    assert batch(world, tasks).code == 0
    lost, solved = results(out)
    assert (lost["outcome"], solved["outcome"]) == ("lost", "solved") and lost["patch"]["files"] == ["f0.txt"]
    assert Path(lost["tree"]).is_dir()
    assert world.run("batch", "clean", str(out)).code == 0 and not Path(lost["tree"]).exists()


def test_a_protected_file_that_changes_is_tampering_also_where_the_agent_has_git_ignore_it(world: World) -> None:
    """And what git ignores anyway is not, nor is a cache that ignores itself."""
    commands = {
        "changed": ("echo : > checks/it.sh", "tampered"),
        "ignored": ("printf 'new.sh\\n.gitignore\\n' > checks/.gitignore; echo true > checks/new.sh", "tampered"),
        "all": ("printf '*\\n' > .gitignore; mkdir checks/sub; echo true > checks/sub/new.sh", "tampered"),
        "usual": (
            "mkdir checks/.cache checks/build; echo '*' > checks/.cache/.gitignore; touch checks/.cache/a checks/build/a;"
            "echo '*.log' >> .gitignore; touch a.log", "solved"
        ),
    }  # fmt: skip
    (world.work / "checks").mkdir()
    (world.work / "checks" / "it.sh").write_text("true\n", encoding="utf-8")
    repository(world.work, **{".gitignore": "build/\n"})
    answering(
        world, lambda prompt, results: Reply(text="done") if results else shell(commands[prompt.split()[-1]][0])
    )
    verify = "for each in checks/*.sh; do sh $each; done"
    tasks = [
        {"id": name, "prompt": name, "repo": str(world.work), "verify": verify, "verify_protect": ["checks/"]}
        for name in commands
    ]
    assert batch(world, tasks_file(world, tasks), "-j", "2").code == 8
    assert outcomes(world.home / "out") == {name: [outcome] for name, (_, outcome) in commands.items()}
