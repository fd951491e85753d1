"""The command that the agent for Harbor runs in a container, run here with the program."""

import json
import os
import subprocess
from pathlib import Path

import jsonschema

from agent_cli.fleet.evaluation.harbor_run import error_name, figures, run_command, trajectory_of_logs
from tests.e2e.fleet import answering
from tests.e2e.world import AGENT, MODEL, World
from tests.fleet.evaluation.test_atif import SCHEMA
from tests.model.server import Call, Reply


def in_container(
    world: World, logs: Path, instruction: str, *options: str, resume: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the command as Harbor does: in bash, with `pipefail`, without standard input."""
    command = run_command(instruction, MODEL, options, str(logs), resume=resume)
    path = f"{Path(AGENT).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=world.work, env={**world.environment(), "PATH": path},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_a_run_leaves_its_events_its_figures_and_its_trajectory(world: World, tmp_path: Path) -> None:
    logs = tmp_path / "my logs"
    prompts: list[str] = []

    def answer(prompt: str, results: int) -> Reply:
        prompts.append(prompt)
        return Reply(text="done") if results else Reply(calls=(Call("shell", {"command": "echo it > a.txt"}),))

    answering(world, answer)
    done = in_container(world, logs, "say 'it' $HOME\n", "--max-turns", "5")
    assert done.returncode == 0, done
    assert (world.work / "a.txt").read_text(encoding="utf-8") == "it\n"
    assert "say 'it' $HOME" in prompts[0]
    assert json.loads(done.stdout)["type"] == "result", "one line, whatever the model has said"
    found = figures(logs)
    assert found.turns == 2 and found.stop_reason == "end_turn" and found.input and found.output
    made = trajectory_of_logs(logs)
    assert made is not None
    jsonschema.validate(json.loads(json.dumps(made)), SCHEMA)
    assert in_container(world, logs, "go on", resume=True).returncode == 0
    again = trajectory_of_logs(logs)
    assert again is not None and again["session_id"] == made["session_id"]
    assert len(again["steps"]) > len(made["steps"])


def test_a_limit_is_judged_and_a_refused_key_is_an_error(world: World, tmp_path: Path) -> None:
    answering(world, lambda prompt, results: Reply(calls=(Call("list_dir", {"path": "."}),)))
    assert in_container(world, tmp_path / "a", "go on and on", "--max-turns", "1").returncode == 0
    assert figures(tmp_path / "a").stop_reason == "turn_limit"
    answering(world, lambda prompt, results: Reply(status=401))
    done = in_container(world, tmp_path / "b", "go on")
    assert done.returncode == 3
    assert error_name(done.returncode, done.stdout) == "AgentAuthenticationError"
