"""`agent eval`: run suites, compare runs, and export them for other programs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from agent_cli.bootstrap.options import Option, UsageError

from ...services.completion import model_names, one_of, option, with_options
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
_OF_BATCH = {each.key: each for each in batch_app.OPTIONS}
_OPTIONS = (
    Option(("--attempts", "-n"), "whole", "Number of attempts per task.", value="N", default=1, least=1),
    _OF_BATCH["jobs"],
    Option(("--out", "-o"), "text", "Folder for results; default SUITE-eval.", value="OUT"),
    *(_OF_BATCH[key] for key in ("mode", "sandbox", "effort")),
    Option(("--tools",), "text", "Tools to offer: core, read-only, full or names.", value="NAMES"),
    *(_OF_BATCH[key] for key in ("max_cost", "max_turns")),
    Option(
        ("--timeout",),
        "number",
        "Limit on an attempt, in seconds, in place of the task's own.",
        value="SECONDS",
        least=0,
    ),
    Option(("--budget",), "number", "Limit on the cost of each model's run, in US dollars.", value="USD", least=0),
    *(_OF_BATCH[key] for key in ("allow_unknown_cost", "filter", "limit", "retry")),
    Option(("--clones",), "text", "SWE-bench: folder of clones named owner__name.", value="DIR"),
    Option(("--check",), "flag", "SWE-bench: run the tests here, without the image of the instance."),
    *(_OF_BATCH[key] for key in ("dry_run", "json")),
)
_IN_TASKS = ("mode", "sandbox", "effort", "tools", "max_cost", "max_turns", "timeout_s")
_TO = option("--output", "-o", text="File or folder to write; default in OUT.", value="PATH")


@app.command()
@with_options(*_OPTIONS)
def run(suite: Annotated[Path, _SUITE], model: Annotated[list[str], _MODELS], *, given: dict[str, Any]) -> int:
    """Run a suite with each model, or continue a stopped run: the same command runs what is missing."""
    from ..batch.start import BatchRequest
    from .run import EvalRequest, run_suite

    fields = batch_app.as_fields(given)
    in_tasks = {name: fields.pop(name) for name in _IN_TASKS if name in fields}
    own = {name: fields.pop(name) for name in ("attempts", "out", "clones", "check") if name in fields}
    batch = BatchRequest(keep="none", keep_gb=0.0, **fields)
    return run_suite(EvalRequest(suite=suite, models=tuple(model), given=in_tasks, batch=batch, **own))


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
