"""`agent batch`: run many tasks, and look at, stop and clean up a batch."""

from pathlib import Path
from typing import Annotated

import typer

from agent_cli.protocol.actions import Mode, SandboxLevel

from ...setup.options import UsageError
from .start import BatchRequest, start_batch

batch = typer.Typer(
    help="Run many tasks, each in a tree of its own: `agent batch TASKS…` is `agent batch run TASKS…`.",
    no_args_is_help=True,
)
_Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a batch.")]


@batch.command()
def run(
    tasks: Annotated[
        list[str], typer.Argument(metavar="TASKS…", help="Files (JSONL, JSON, YAML) or folders of tasks; - is stdin.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="OUT", help="Folder for results; default NAME-batch.")
    ] = None,
    slots: Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, help="Attempts at a time.")] = 4,
    model: Annotated[str, typer.Option("--model", "-m", metavar="PROVIDER/MODEL", help="Model to use.")] = "",
    mode: Annotated[str, typer.Option(metavar="MODE", help="What runs without asking; default auto-edit.")] = "",
    sandbox: Annotated[str, typer.Option(metavar="LEVEL", help="Sandbox level for commands.")] = "",
    effort: Annotated[str, typer.Option(metavar="EFFORT", help="Reasoning effort.")] = "",
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", min=0, help="Limit on cost per attempt, in US dollars.")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(metavar="N", min=1, help="Limit on model calls per attempt.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", min=0, help="Limit on an attempt.")] = None,
    setup: Annotated[str, typer.Option(metavar="CMD", help="Command that prepares each tree.")] = "",
    verify: Annotated[str, typer.Option(metavar="CMD", help="Command that decides whether a task is solved.")] = "",
    attempts: Annotated[int | None, typer.Option(metavar="N", min=1, help="Attempts at each task.")] = None,
    pick: Annotated[str, typer.Option(metavar="first_verified|all|smallest_diff", help="Which attempt counts.")] = "",
    budget: Annotated[
        float | None, typer.Option(metavar="USD", min=0, help="Limit on the cost of the whole batch.")
    ] = None,
    allow_unknown_cost: Annotated[
        bool, typer.Option("--allow-unknown-cost", help="With --budget: run models without a known price too.")
    ] = False,
    filter: Annotated[str, typer.Option(metavar="REGEX", help="Only tasks whose id matches.")] = "",
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the first N tasks.")] = None,
    shuffle: Annotated[int | None, typer.Option(metavar="SEED", help="Shuffle the tasks by this seed.")] = None,
    retry: Annotated[
        str, typer.Option(metavar="infra|failed|all", help="What is run again where OUT has results.")
    ] = "infra",
    keep: Annotated[str, typer.Option(metavar="failed|all|none", help="Trees that stay afterwards.")] = "failed",
    keep_gb: Annotated[float, typer.Option(metavar="GB", min=0, help="Disk space that kept trees may take.")] = 10.0,
    result: Annotated[str, typer.Option(metavar="patch|branch", help="Also make a branch of each result.")] = "patch",
    engine: Annotated[str, typer.Option(metavar="local|dask", help="Where attempts run.")] = "local",
    address: Annotated[str, typer.Option(metavar="URL", help="Dask scheduler, for example tls://host:8786.")] = "",
    scheduler_file: Annotated[str, typer.Option(metavar="FILE", help="File in which a Dask scheduler wrote it.")] = "",
    insecure_cluster: Annotated[
        bool, typer.Option("--insecure-cluster", help="Accept a scheduler without TLS beyond this machine.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the frozen tasks; run nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print events as JSON lines.")] = False,
) -> int:
    """Run tasks, or go on with a batch that was stopped: the same command does what is missing."""
    request = BatchRequest(
        sources=tuple(tasks), out=out, slots=slots, budget=budget, allow_unknown_cost=allow_unknown_cost,
        filter=filter, limit=limit, shuffle=shuffle, retry=_one_of("--retry", retry, ("infra", "failed", "all")),
        keep=_one_of("--keep", keep, ("failed", "all", "none")), keep_gb=keep_gb,
        makes_branches=_one_of("--result", result, ("patch", "branch")) == "branch",
        engine=_one_of("--engine", engine, ("local", "dask")), address=address, scheduler_file=scheduler_file,
        insecure_cluster=insecure_cluster, dry_run=dry_run, json=json,
        defaults={
            name: value
            for name, value in (
                ("model", model), ("mode", mode), ("sandbox", sandbox), ("effort", effort), ("max_cost", max_cost),
                ("max_turns", max_turns), ("timeout_s", timeout), ("setup", setup), ("verify", verify),
                ("attempts", attempts), ("pick", pick),
            )
            if value not in ("", None)
        },
    )  # fmt: skip
    return start_batch(request)


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UsageError(f"{name}: {value!r} is not one of {', '.join(choices)}")
    return value


@batch.command()
def status(
    out: _Out,
    report: Annotated[bool, typer.Option("--report", help="Write the reports anew from the results.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Show what came of a batch so far, and whether it runs."""
    from .manage import show_status

    return show_status(out, report=report, as_json=json)


@batch.command()
def cancel(out: _Out) -> int:
    """Ask a running batch to stop; what is done stays."""
    from .manage import cancel_batch

    return cancel_batch(out)


@batch.command()
def clean(
    out: _Out,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the trees.")] = False,
    keep_gb: Annotated[float, typer.Option(metavar="GB", min=0, help="Disk space that trees may take.")] = 0.0,
) -> int:
    """Remove the trees that a batch has kept, oldest first; their patches stay in OUT."""
    from .manage import clean_batch

    return clean_batch(out, dry_run=dry_run, keep_gb=keep_gb)
