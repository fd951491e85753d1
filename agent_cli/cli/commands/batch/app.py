"""`agent batch`: run many tasks, and look at, stop and clean up a batch."""

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from agent_cli.bootstrap.options import Option
from agent_cli.fleet.task import Pick
from agent_cli.protocol.actions import Mode, SandboxLevel
from agent_cli.protocol.usage import EFFORTS

from ...services.completion import option, with_options

batch = typer.Typer(
    help="Run many tasks, each in its own tree. `agent batch TASKS…` is short for `agent batch run TASKS…`.",
    no_args_is_help=True,
)


_Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a batch.")]
_Tasks = typer.Argument(metavar="TASKS…", help="JSONL, JSON or YAML files, or folders; - is standard input.")
_RETRIES = ("infra", "failed", "all")
OPTIONS = (
    Option(("--out", "-o"), "text", "Folder for results; default NAME-batch.", value="OUT"),
    Option(("--jobs", "-j"), "whole", "Number of attempts at the same time.", value="N", default=4, least=1),
    Option(("--model", "-m"), "text", "Model to use.", value="PROVIDER/MODEL"),
    Option(("--mode",), "text", "What runs without asking; default auto-edit.", get_args(Mode)),
    Option(("--sandbox",), "text", "Sandbox level for commands.", get_args(SandboxLevel)),
    Option(("--effort",), "text", "Reasoning effort.", EFFORTS),
    Option(("--max-cost",), "number", "Limit on cost per attempt, in US dollars.", value="USD", least=0),
    Option(("--max-turns",), "whole", "Limit on model calls per attempt.", value="N", least=1),
    Option(("--timeout",), "number", "Limit on an attempt, in seconds.", value="SECONDS", least=0),
    Option(("--setup",), "text", "Command that prepares each tree.", value="CMD"),
    Option(("--verify",), "text", "Command that decides whether a task is solved.", value="CMD"),
    Option(("--attempts",), "whole", "Number of attempts per task.", value="N", least=1),
    Option(("--pick",), "text", "Which attempt counts.", get_args(Pick)),
    Option(("--budget",), "number", "Limit on the cost of the whole batch, in US dollars.", value="USD", least=0),
    Option(("--allow-unknown-cost",), "flag", "With --budget: run models without known prices too."),
    Option(("--filter",), "text", "Run only tasks whose id matches.", value="REGEX"),
    Option(("--limit",), "whole", "Run only the first N tasks.", value="N", least=1),
    Option(("--shuffle",), "whole", "Shuffle the tasks by this seed.", value="SEED"),
    Option(("--retry",), "text", "What to run again if OUT has results.", _RETRIES, default="infra"),
    Option(("--keep",), "text", "Which trees to keep afterwards.", ("failed", "all", "none"), default="failed"),
    Option(("--keep-gb",), "number", "Disk space for kept trees.", value="GB", default=10.0, least=0),
    Option(("--result",), "text", "Also create a branch for each result.", ("patch", "branch"), default="patch"),
    Option(("--engine",), "text", "Where attempts run.", ("local", "dask"), default="local"),
    Option(("--address",), "text", "Address of a Dask scheduler, such as tls://host:8786.", value="URL"),
    Option(("--scheduler-file",), "text", "File that a Dask scheduler wrote.", value="FILE"),
    Option(("--insecure-cluster",), "flag", "Accept a scheduler without TLS beyond this machine."),
    Option(("--trace",), "flag", "Write a trace of each attempt beside its session."),
    Option(("--dry-run",), "flag", "Show the frozen tasks; run nothing."),
    Option(("--json",), "flag", "Print events as JSON lines."),
)
_DEFAULTS = (
    *("model", "mode", "sandbox", "effort", "max_cost", "max_turns", "timeout_s", "setup", "verify"),
    *("attempts", "pick"),
)


def as_fields(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options by the names that requests and tasks have for them; an empty text is none."""
    names = {"jobs": "slots", "timeout": "timeout_s"}
    found = {names.get(key, key): value for key, value in given.items() if value != ""}
    return found | {key: Path(found[key]) for key in ("out", "clones") if key in found}


@batch.command()
@with_options(*OPTIONS)
def run(tasks: Annotated[list[str], _Tasks], *, given: dict[str, Any]) -> int:
    """Run tasks, or continue a stopped batch: the same command runs what is missing."""
    from .start import BatchRequest, start_batch

    fields = as_fields(given)
    defaults = {name: fields.pop(name) for name in _DEFAULTS if name in fields}
    return start_batch(BatchRequest(sources=tuple(tasks), defaults=defaults, **fields))


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
    keep_gb: Annotated[float, option(text="Disk space for kept trees.", value="GB", least=0)] = 0.0,
) -> int:
    """Remove the trees that a batch has kept, oldest first; their patches stay in OUT."""
    from .manage import clean_batch

    return clean_batch(out, dry_run=dry_run, keep_gb=keep_gb)
