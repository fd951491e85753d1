"""The GitHub Action: `action.yml` by the rules of a runner, and its scripts with an environment as a runner gives it."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_cli.review.formats.all import rendered
from tests.review.formats.reviews import FULL, HEAD
from tests.review.repository import committed
from tests.rows import each_row

ACTION = Path(__file__).parents[2] / "action"
DEFINITION: dict[str, Any] = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = DEFINITION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")


def expressions(value: object) -> list[str]:
    return EXPRESSION.findall(json.dumps(value))


def test_every_input_is_used_and_every_used_one_exists() -> None:
    used = {name for each in expressions(DEFINITION["runs"]) for name in re.findall(r"inputs\.([\w-]+)", each)}
    assert used == set(DEFINITION["inputs"])
    for name, about in DEFINITION["inputs"].items():
        assert about["description"] and (about.get("required") or isinstance(about["default"], str)), name


def test_every_step_has_a_shell_and_no_expression_in_its_script() -> None:
    assert DEFINITION["runs"]["using"] == "composite"
    for step in STEPS:
        assert step["shell"] == "bash" and not EXPRESSION.search(step["run"]), step["run"]
        script = re.fullmatch(r'bash "\$GITHUB_ACTION_PATH/(\w+\.sh)"', step["run"])
        assert script and "${{" not in (ACTION / script[1]).read_text(encoding="utf-8")
        assert set(step) <= {"id", "shell", "run", "env"}


def test_outputs_refer_to_steps_and_to_what_these_write() -> None:
    ids = [step["id"] for step in STEPS if "id" in step]
    assert len(set(ids)) == len(ids)
    assert set(DEFINITION["outputs"]) == {"conclusion", "exit-code", "review-path", "session-id", "cost-usd"}
    scripts = {
        step["id"]: (ACTION / step["run"].split("/")[-1][:-1]).read_text() for step in STEPS if "id" in step
    }
    for about in DEFINITION["outputs"].values():
        for step, name in re.findall(r"steps\.(\w+)\.outputs\.([\w-]+)", about["value"]):
            assert step in ids and (f"{name}=" in scripts[step] or f'"{name}"' in scripts[step])


def test_each_conclusion_is_one_that_is_documented() -> None:
    """Whatever ends the job before the review does: what the guard wrote is then the conclusion."""
    scripts = "".join((ACTION / name).read_text() for name in ("guard.sh", "review.sh"))
    documented = set(re.findall(r"\w+", DEFINITION["outputs"]["conclusion"]["description"])) - {"or"}
    assert set(re.findall(r"\bconclusion=(\w+)", scripts)) == documented


def test_the_key_is_given_to_one_step_and_the_token_to_another() -> None:
    keyed = [
        step.get("id") for step in STEPS if any("api-key }}" in value for value in step.get("env", {}).values())
    ]
    assert keyed == ["review"]
    tokens = [
        step.get("id") for step in STEPS if any("github.token" in value for value in step.get("env", {}).values())
    ]
    assert tokens == ["guard"]


def test_every_variable_of_a_script_is_given() -> None:
    of_runner = {"GITHUB_OUTPUT", "GITHUB_ACTION_PATH", "GITHUB_STEP_SUMMARY", "RUNNER_TEMP", "AGENT", "PYTHON"}
    for step in STEPS:
        script = (ACTION / step["run"].split("/")[-1][:-1]).read_text(encoding="utf-8")
        used = set(re.findall(r"\$\{?([A-Z][A-Z_]+)\b", script))
        assert used <= {*step.get("env", {}), *of_runner}


# The guard

GH = '#!/bin/sh\ncase "$2" in */alice/*) echo write;; */boss/*) echo admin;; */reader/*) echo read;; *) exit 1;; esac\n'
USUAL = {
    "REPOSITORY": "us/shop", "EVENT": "pull_request", "ACTOR": "alice", "TRIGGERING_ACTOR": "alice",
    "SENDER_TYPE": "User", "HEAD_REPOSITORY": "us/shop", "ALLOWED_ACTORS": "", "ALLOWED_BOTS": "", "GH_TOKEN": "x",
}  # fmt: skip
BOT = {"ACTOR": "renovate[bot]", "TRIGGERING_ACTOR": "renovate[bot]", "SENDER_TYPE": "Bot"}
FORK = {"HEAD_REPOSITORY": "stranger/shop"}


def run(script: str, folder: Path, env: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
    """Return exit code, what is printed, and the outputs of a script."""
    outputs = folder / "outputs"
    outputs.write_text("")
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "gh").write_text(GH)
    (folder / "bin" / "gh").chmod(0o755)
    always = {
        "PATH": f"{folder}/bin:{os.environ['PATH']}", "GITHUB_OUTPUT": str(outputs), "RUNNER_TEMP": str(folder),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"), "HOME": str(folder),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", str(ACTION / script)], cwd=folder / "work", env={**always, **env}, capture_output=True, text=True
    )
    pairs = (line.partition("=") for line in outputs.read_text().splitlines())
    return done.returncode, done.stdout + done.stderr, {name: value for name, _, value in pairs}


CASES: dict[str, tuple[dict[str, str], str]] = {
    "write access": ({}, ""),
    "admin": ({"ACTOR": "boss", "TRIGGERING_ACTOR": "boss"}, ""),
    "read access": ({"ACTOR": "reader", "TRIGGERING_ACTOR": "reader"}, "reader has no write access"),
    "stranger": ({"ACTOR": "eve", "TRIGGERING_ACTOR": "eve"}, "eve has no write access"),
    "allowed stranger": ({"ACTOR": "eve", "TRIGGERING_ACTOR": "eve", "ALLOWED_ACTORS": "bob, Eve"}, ""),
    "run again by a stranger": ({"TRIGGERING_ACTOR": "eve"}, "eve has no write access"),
    "bot": (BOT, "is a bot"),
    "bot without the mark": ({"SENDER_TYPE": "Bot"}, "is a bot"),
    "allowed bot": ({**BOT, "ALLOWED_BOTS": "renovate[bot]"}, ""),
    "a bot is no allowed actor": ({**BOT, "ALLOWED_ACTORS": "renovate[bot]"}, "is a bot"),
    "code of a stranger with secrets": ({**FORK, "EVENT": "pull_request_target"}, "code of a stranger"),
    "its own base with secrets": ({**FORK, "EVENT": "pull_request_target", "BASE_COMMIT": "HEAD"}, ""),
    "a branch with secrets": ({"EVENT": "pull_request_target"}, ""),
    "a comment on a fork": ({**FORK, "EVENT": "issue_comment"}, "code of a stranger"),
    "merge commit": ({"HEAD_COMMIT": "other"}, "check out the head"),
    "odd name": ({"ACTOR": "x\n::add-mask::y"}, "no plain name"),
}


@each_row("case", CASES)
def test_who_may_start_a_review(tmp_path: Path, case: str) -> None:
    changes, refusal = CASES[case]
    head = committed(tmp_path / "work", {"a.py": "1\n"})
    env = {**USUAL, "HEAD_COMMIT": head, "BASE_COMMIT": "0" * 40, **changes}
    env["BASE_COMMIT"] = head if env["BASE_COMMIT"] == "HEAD" else env["BASE_COMMIT"]
    code, said, outputs = run("guard.sh", tmp_path, env)
    assert (code, outputs) == ((1, {"conclusion": "refused"}) if refusal else (0, {"conclusion": "incomplete"}))
    assert refusal in said and said.count("::error") == bool(refusal) and "\n::add-mask" not in said


# The review

REVIEW = {
    "API_KEY": "sk-secret", "API_KEY_VARIABLE": "ANTHROPIC_API_KEY", "MODEL": "", "EFFORT": "", "BASE": "",
    "BASE_BRANCH": "main", "INSTRUCTIONS": "", "FAIL_ON": "P1", "MAX_FINDINGS": "", "MAX_COST": "", "TIMEOUT": "",
    "PREVIOUS": "", "SARIF_FILE": "", "PR_REVIEW_FILE": "", "SUMMARY": "false", "PYTHON": "python3",
}  # fmt: skip
PROGRAM = """#!/bin/bash
printf '%s\\n' "$@" > "$RUNNER_TEMP/arguments"
env > "$RUNNER_TEMP/environment"
for word in "$@"; do [[ "$word" == json=* ]] && cp "$RUNNER_TEMP/given.json" "${word#json=}"; done
for word in "$@"; do [[ "$word" == text=* ]] && echo '::error::text' > "${word#text=}"; done
exit "${CODE:-0}"
"""


def reviewed(folder: Path, **changes: str) -> tuple[int, str, dict[str, str], list[str]]:
    """Run the review with a program that writes down what it is given."""
    (folder / "work").mkdir(exist_ok=True)
    (folder / "agent").write_text(PROGRAM)
    (folder / "agent").chmod(0o755)
    (folder / "given.json").write_text(rendered(FULL, "json"))
    code, said, outputs = run("review.sh", folder, {**REVIEW, "AGENT": str(folder / "agent"), **changes})
    arguments = folder / "arguments"
    return code, said, outputs, arguments.read_text().splitlines() if arguments.exists() else []


@pytest.mark.parametrize(("given", "conclusion"), [("0", "success"), ("8", "findings"), ("5", "incomplete")])
def test_the_exit_code_is_that_of_the_review(tmp_path: Path, given: str, conclusion: str) -> None:
    code, _, outputs, arguments = reviewed(tmp_path, CODE=given)
    assert (code, outputs["conclusion"], outputs["exit-code"]) == (int(given), conclusion, given)
    assert json.loads(Path(outputs["review-path"]).read_text(encoding="utf-8"))["head"] == HEAD
    assert set(outputs) == {"conclusion", "exit-code", "review-path", "session-id", "cost-usd"}
    assert "--base=origin/main" in arguments and "--fail-on" in arguments and not (tmp_path / "summary").exists()


def test_the_key_is_in_the_environment_of_the_program_and_nowhere_else(tmp_path: Path) -> None:
    _, said, _, arguments = reviewed(tmp_path, GH_TOKEN="token")
    env = (tmp_path / "environment").read_text()
    assert "ANTHROPIC_API_KEY=sk-secret\n" in env and env.count("sk-secret") == 1 and "GH_TOKEN" not in env
    assert "sk-secret" not in said + "".join(arguments)
    refused = reviewed(tmp_path, API_KEY_VARIABLE="LD_PRELOAD")
    assert refused[0] == 2 and "api-key-variable" in refused[1] and refused[2] == {"exit-code": "2"}


def test_the_first_push_has_no_earlier_review(tmp_path: Path) -> None:
    code, said, outputs, arguments = reviewed(tmp_path, PREVIOUS="last.json")
    assert (code, outputs["conclusion"]) == (0, "success") and "no review of an earlier push yet" in said
    assert not any(each.startswith("--previous") for each in arguments)
    (tmp_path / "work" / "last.json").write_text("{}")
    assert "--previous=last.json" in reviewed(tmp_path, PREVIOUS="last.json")[3]


def test_texts_of_strangers_stay_one_argument(tmp_path: Path) -> None:
    odd = "--mode yolo; $(touch proof) `touch proof`"
    _, _, _, arguments = reviewed(
        tmp_path, INSTRUCTIONS=odd, BASE_BRANCH="x'$(touch proof)", SARIF_FILE="a b.sarif"
    )
    assert arguments[-2:] == ["--", odd] and "--base=origin/x'$(touch proof)" in arguments
    assert "--also=sarif=a b.sarif" in arguments and not list(tmp_path.rglob("proof"))


def test_nothing_that_lies_in_the_repository_is_imported_posted_or_followed(tmp_path: Path) -> None:
    work, victim = tmp_path / "work", tmp_path / "victim"
    victim.write_text("mine")
    hostile = "import pathlib; pathlib.Path('proof').touch()\n"
    committed(work, {"json.py": hostile, "venv.py": hostile, "pr.json": '{"event": "APPROVE"}'})
    (work / "a.sarif").symlink_to(victim)
    reviewed(tmp_path, CODE="3", PR_REVIEW_FILE="pr.json", SARIF_FILE="a.sarif")
    assert not (work / "pr.json").exists() and not (work / "a.sarif").is_symlink()
    pip = tmp_path / "agent-review" / "bin" / "pip"
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin" / "python3").write_text(
        f'#!/bin/sh\n[ "$2" != -m ] || {{ mkdir -p {pip.parent}; ln -sf /bin/true {pip}; pwd > {tmp_path}/stood; }}\n'
    )
    (tmp_path / "bin" / "python3").chmod(0o755)
    assert run("install.sh", tmp_path, {"GITHUB_ACTION_PATH": str(ACTION)})[0] == 0
    assert (tmp_path / "stood").read_text().strip() == str(tmp_path)
    assert not list(tmp_path.rglob("proof"))


def test_the_summary_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    reviewed(tmp_path, SUMMARY="true")
    assert (tmp_path / "summary").read_text() == "    ::error::text\n"
