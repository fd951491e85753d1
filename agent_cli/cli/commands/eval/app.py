"""`agent eval`: run suites, compare runs, and export them for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from agent_cli.bootstrap.options import UsageError

from ...services.completion import model_names, one_of, option
from ..batch import app as batch_app

app = typer.Typer(help="Measure models and settings on suites of tasks.", no_args_is_help=True)
_FORMS = ("swebench", "atif", "harbor")
_SUITE = typer.Argument(
    metavar="SUITE", help="A task or a folder of tasks in Harbor's form, or SWE-bench instances.", exists=True
)
_OUT = typer.Argument(metavar="OUT", help="The folder of one run: OUT/MODEL of `agent eval run`.", exists=True)


def _models(incomplete: str) -> list[str]:
    return [*one_of("oracle", "wrong", "nop")(incomplete), *model_names(incomplete)]


_MODELS = option(
    "--model", "-m", text="Model, oracle, wrong or nop (repeatable).", value="PROVIDER/MODEL", offered=_models
)
_ATTEMPTS = option("--attempts", "-n", text="Number of attempts per task.", value="N", least=1)
_INTO = option("--out", "-o", text="Folder for results; default SUITE-eval.", value="OUT")
_TOOLS = option(text="Tools to offer: core, read-only, full or names.", value="NAMES")
_TIMEOUT = option(text="Limit on an attempt, in seconds, in place of the task's own.", value="SECONDS", least=0)
_BUDGET = option(text="Limit on the cost of each model's run, in US dollars.", value="USD", least=0)
_CLONES = option(text="SWE-bench: folder of clones named owner__name.", value="DIR")
_CHECK = typer.Option("--check", help="SWE-bench: run the tests here, without the image of the instance.")
_TO = option("--output", "-o", text="File or folder to write; default in OUT.", value="PATH")


@app.command()
def run(
    suite: Annotated[Path, _SUITE],
    model: Annotated[list[str], _MODELS],
    attempts: Annotated[int, _ATTEMPTS] = 1,
    slots: Annotated[int, batch_app.SLOTS] = 4,
    out: Annotated[Path | None, _INTO] = None,
    mode: Annotated[str, batch_app.MODE] = "",
    sandbox: Annotated[str, batch_app.SANDBOX] = "",
    effort: Annotated[str, batch_app.EFFORT] = "",
    tools: Annotated[str, _TOOLS] = "",
    max_cost: Annotated[float | None, batch_app.MAX_COST] = None,
    max_turns: Annotated[int | None, batch_app.MAX_TURNS] = None,
    timeout: Annotated[float | None, _TIMEOUT] = None,
    budget: Annotated[float | None, _BUDGET] = None,
    allow_unknown_cost: Annotated[bool, batch_app.ALLOW] = False,
    filter: Annotated[str, batch_app.FILTER] = "",
    limit: Annotated[int | None, batch_app.LIMIT] = None,
    retry: Annotated[str, batch_app.RETRY] = "infra",
    clones: Annotated[Path | None, _CLONES] = None,
    check: Annotated[bool, _CHECK] = False,
    dry_run: Annotated[bool, batch_app.DRY_RUN] = False,
    json: Annotated[bool, batch_app.JSON] = False,
) -> int:
    """Run a suite with each model, or continue a stopped run: the same command runs what is missing."""
    from ..batch.start import BatchRequest
    from .run import EvalRequest, run_suite

    if retry not in ("infra", "failed", "all"):
        raise UsageError(f"--retry: {retry!r} is not one of infra, failed, all")
    given = {
        "mode": mode, "sandbox": sandbox, "effort": effort, "tools": tools,
        "max_cost": max_cost, "max_turns": max_turns, "timeout_s": timeout,
    }  # fmt: skip
    batch = BatchRequest(
        slots=slots, budget=budget, allow_unknown_cost=allow_unknown_cost, filter=filter, limit=limit,
        retry=retry, keep="none", keep_gb=0.0, dry_run=dry_run, json=json,
    )  # fmt: skip
    return run_suite(
        EvalRequest(
            suite=suite,
            models=tuple(model),
            attempts=attempts,
            out=out,
            clones=clones,
            check=check,
            batch=batch,
            given={name: value for name, value in given.items() if value not in ("", None)},
        )
    )


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="The folder of a run.", exists=True)],
    after: Annotated[Path, typer.Argument(metavar="B", help="The folder of another.", exists=True)],
    output: Annotated[Path | None, option("--output", "-o", text="Also write a page.", value="FILE.html")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Compare two runs task by task, and say whether the difference could be chance."""
    from .show import show_comparison

    return show_comparison(before, after, output, as_json=json)


@app.command()
def export(
    form: Annotated[
        str, typer.Argument(metavar="FORM", help="swebench, atif or harbor.", autocompletion=one_of(*_FORMS))
    ],
    out: Annotated[Path, _OUT],
    output: Annotated[Path | None, _TO] = None,
) -> int:
    """Write predictions for SWE-bench, trajectories in ATIF, or trials as Harbor saves them."""
    from .show import FORMS, export_run

    if form not in FORMS:
        raise UsageError(f"{form!r} is not one of {', '.join(FORMS)}")
    return export_run(form, out, output)
