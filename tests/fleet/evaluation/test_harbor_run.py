"""What the agent for Harbor reports of its run."""

import ast
import json
from pathlib import Path

from agent_cli.fleet.evaluation import harbor_run
from agent_cli.fleet.evaluation.harbor_run import RunFigures, error_name, figures, trajectory_of_logs
from tests.rows import each_row

EXCEPTIONS = {
    "AgentAuthenticationError", "ApiConnectionClosedError", "ApiInternalServerError", "ApiOverloadedError",
    "ApiRateLimitError", "ApiResponseStalledError", "ApiUsageLimitError", "ModelNotFoundError",
    "NetworkConnectionError", "NonZeroAgentExitCodeError", "UnknownApiError",
}  # fmt: skip
"""Of `harbor.agents.installed.base` in harbor 0.25.0, those that are used here."""


@each_row(
    ("code", "kind", "name"),
    [
        (4, "rate_limit", "ApiRateLimitError"),
        (4, "something new", "UnknownApiError"),
        (2, "bad_model", "ModelNotFoundError"),
        (2, "usage_error", "NonZeroAgentExitCodeError"),
        (1, "", "NonZeroAgentExitCodeError"),
        (137, "", "NonZeroAgentExitCodeError"),
    ],
)
def test_the_cause_is_read_from_the_result_and_not_from_words(code: int, kind: str, name: str) -> None:
    line = json.dumps(
        {"type": "result", "text": "rate limit exceeded", "error": {"kind": kind}}, separators=(",", ":")
    )
    assert error_name(code, f"Incorrect API key provided\n{line}\n") == name


def test_the_names_of_errors_are_those_of_harbor() -> None:
    named = set(harbor_run._BY_KIND.values()) | {error_name(3, ""), error_name(4, ""), error_name(1, "")}
    assert named == EXCEPTIONS


def test_a_killed_run_has_no_figures(tmp_path: Path) -> None:
    assert figures(tmp_path) == RunFigures()
    (tmp_path / "stream.jsonl").write_text('{"type":"session_started"}\n{"type":"resu', encoding="utf-8")
    assert figures(tmp_path) == RunFigures() and trajectory_of_logs(tmp_path) is None


def test_harbor_is_imported_by_its_agent_alone() -> None:
    package = Path(harbor_run.__file__).parents[2]
    importing = [
        path.name
        for path in package.rglob("*.py")
        if "harbor" in path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(name.split(".")[0] == "harbor" for name in _names(node))
    ]
    assert set(importing) == {"harbor_agent.py"}


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    return (
        [alias.name for alias in node.names]
        if isinstance(node, ast.Import)
        else [node.module or ""] * (not node.level)
    )
