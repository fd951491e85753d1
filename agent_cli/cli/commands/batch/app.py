"""`agent batch`: run many tasks, and look at, stop and clean up a batch."""

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.fleet.task import Pick
from agent_cli.protocol.actions import Mode, SandboxLevel
from agent_cli.protocol.usage import EFFORTS

from ...services.completion import model_names, option

batch = typer.Typer(
    help="Run many tasks, each in its own tree. `agent batch TASKS…` is short for `agent batch run TASKS…`.",
    no_args_is_help=True,
)


_Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a batch.")]
_Tasks = typer.Argument(metavar="TASKS…", help="JSONL, JSON or YAML files, or folders; - is standard input.")
_INTO = option("--out", "-o", text="Folder for results; default NAME-batch.", value="OUT")
SLOTS = option("--jobs", "-j", text="Number of attempts at the same time.", value="N", least=1)
_MODEL = option("--model", "-m", text="Model to use.", value="PROVIDER/MODEL", offered=model_names)
MODE = option(text="What runs without asking; default auto-edit.", value="|".join(get_args(Mode)))
SANDBOX = option(text="Sandbox level for commands.", value="|".join(get_args(SandboxLevel)))
EFFORT = option(text="Reasoning effort.", value="|".join(EFFORTS))
MAX_COST = option(text="Limit on cost per attempt, in US dollars.", value="USD", least=0)
MAX_TURNS = option(text="Limit on model calls per attempt.", value="N", least=1)
_TIMEOUT = option(text="Limit on an attempt, in seconds.", value="SECONDS", least=0)
_SETUP = option(text="Command that prepares each tree.", value="CMD")
_VERIFY = option(text="Command that decides whether a task is solved.", value="CMD")
_ATTEMPTS = option(text="Number of attempts per task.", value="N", least=1)
_PICK = option(text="Which attempt counts.", value="|".join(get_args(Pick)))
_BUDGET = option(text="Limit on the cost of the whole batch, in US dollars.", value="USD", least=0)
ALLOW = typer.Option("--allow-unknown-cost", help="With --budget: run models without known prices too.")
FILTER = option(text="Run only tasks whose id matches.", value="REGEX")
LIMIT = option(text="Run only the first N tasks.", value="N", least=1)
_SHUFFLE = option(text="Shuffle the tasks by this seed.", value="SEED")
RETRY = option(text="What to run again if OUT has results.", value="infra|failed|all")
_KEEP = option(text="Which trees to keep afterwards.", value="failed|all|none")
_KEEP_GB = option(text="Disk space for kept trees.", value="GB", least=0)
_RESULT = option(text="Also create a branch for each result.", value="patch|branch")
_ENGINE = option(text="Where attempts run.", value="local|dask")
_ADDRESS = option(text="Address of a Dask scheduler, such as tls://host:8786.", value="URL")
_SCHEDULER = option(text="File that a Dask scheduler wrote.", value="FILE")
_INSECURE = typer.Option("--insecure-cluster", help="Accept a scheduler without TLS beyond this machine.")
_TRACE = typer.Option("--trace", help="Write a trace of each attempt beside its session.")
DRY_RUN = typer.Option("--dry-run", help="Show the frozen tasks; run nothing.")
JSON = typer.Option("--json", help="Print events as JSON lines.")
_DEFAULTS = (
    *("model", "mode", "sandbox", "effort", "max_cost", "max_turns", "timeout_s", "setup", "verify"),
    *("attempts", "pick"),
)
_CHOICES = {
    "retry": ("infra", "failed", "all"),
    "keep": ("failed", "all", "none"),
    "result": ("patch", "branch"),
    "engine": ("local", "dask"),
}


@batch.command()
def run(
    tasks: Annotated[list[str], _Tasks],
    out: Annotated[Path | None, _INTO] = None,
    slots: Annotated[int, SLOTS] = 4,
    model: Annotated[str, _MODEL] = "",
    mode: Annotated[str, MODE] = "",
    sandbox: Annotated[str, SANDBOX] = "",
    effort: Annotated[str, EFFORT] = "",
    max_cost: Annotated[float | None, MAX_COST] = None,
    max_turns: Annotated[int | None, MAX_TURNS] = None,
    timeout: Annotated[float | None, _TIMEOUT] = None,
    setup: Annotated[str, _SETUP] = "",
    verify: Annotated[str, _VERIFY] = "",
    attempts: Annotated[int | None, _ATTEMPTS] = None,
    pick: Annotated[str, _PICK] = "",
    budget: Annotated[float | None, _BUDGET] = None,
    allow_unknown_cost: Annotated[bool, ALLOW] = False,
    filter: Annotated[str, FILTER] = "",
    limit: Annotated[int | None, LIMIT] = None,
    shuffle: Annotated[int | None, _SHUFFLE] = None,
    retry: Annotated[str, RETRY] = "infra",
    keep: Annotated[str, _KEEP] = "failed",
    keep_gb: Annotated[float, _KEEP_GB] = 10.0,
    result: Annotated[str, _RESULT] = "patch",
    engine: Annotated[str, _ENGINE] = "local",
    address: Annotated[str, _ADDRESS] = "",
    scheduler_file: Annotated[str, _SCHEDULER] = "",
    insecure_cluster: Annotated[bool, _INSECURE] = False,
    trace: Annotated[bool, _TRACE] = False,
    dry_run: Annotated[bool, DRY_RUN] = False,
    json: Annotated[bool, JSON] = False,
) -> int:
    """Run tasks, or continue a stopped batch: the same command runs what is missing."""
    given: dict[str, Any] = dict(locals())
    from .start import BatchRequest, start_batch

    for name, choices in _CHOICES.items():
        if given[name] not in choices:
            raise UsageError(f"--{name}: {given[name]!r} is not one of {', '.join(choices)}")
    given["timeout_s"] = given.pop("timeout")
    defaults = {name: value for name in _DEFAULTS if (value := given.pop(name)) not in ("", None)}
    return start_batch(BatchRequest(sources=tuple(given.pop("tasks")), defaults=defaults, **given))


@batch.command()
def status(
    out: _Out,
    report: Annotated[bool, typer.Option("--report", help="Rebuild the reports from the results.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Show the results of a batch so far, and whether it is running."""
    from .manage import show_status

    return show_status(out, report=report, as_json=json)


@batch.command()
def cancel(out: _Out) -> int:
    """Stop a running batch; finished attempts are kept."""
    from .manage import cancel_batch

    return cancel_batch(out)


@batch.command()
def clean(
    out: _Out,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the trees.")] = False,
    keep_gb: Annotated[float, _KEEP_GB] = 0.0,
) -> int:
    """Remove the trees that a batch has kept, oldest first; their patches stay in OUT."""
    from .manage import clean_batch

    return clean_batch(out, dry_run=dry_run, keep_gb=keep_gb)
