"""`agent review`: options, exit codes and where the result goes."""

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from agent_cli.config.schema import Effort
from agent_cli.fs.files import read_regular
from agent_cli.model.routing import MissingKey, NoModel
from agent_cli.model.types.base import ModelError
from agent_cli.protocol.sanitize import clean
from agent_cli.protocol.stop_reason import EXIT_CODES
from agent_cli.review.finding import Finding, PreviousError, Review, TargetKind, earlier_findings
from agent_cli.review.formats.all import FORMATS, rendered
from agent_cli.review.formats.text import about_target, incomplete, summary
from agent_cli.review.git_reader import ReviewError
from agent_cli.review.material import Selection, read_patch
from agent_cli.review.passes import Request
from agent_cli.ui.signals import signal_handlers

from ...services.keys.first_run import cannot_start
from ...services.review.reviewing import ReviewOrder, Stop, carry_out, review_setup
from ...setup.options import ParsedOptions, UsageError

_PRIORITIES = ("P0", "P1", "P2", "P3")
_LARGEST_PREVIOUS = 50_000_000
_Text = str | None


def _option(name: str, value: str, text: str, *more: str, **how: Any) -> Any:
    return typer.Option(name, *more, metavar=value, help=text, **how)


def review_command(
    instructions: Annotated[
        _Text, typer.Argument(metavar="INSTRUCTIONS", help="What to look for beside the usual.")
    ] = None,
    base: Annotated[_Text, _option("--base", "REF", "Review what the branch has beyond REF.")] = None,
    commit: Annotated[_Text, _option("--commit", "SHA", "Review one commit.")] = None,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Review staged, unstaged and new files.")
    ] = False,
    patch: Annotated[_Text, _option("--patch", "FILE", "Review a patch; it need not be applied.")] = None,
    format: Annotated[
        str,
        _option("--format", "|".join(FORMATS), "Format of the result.", autocompletion=lambda: [*FORMATS]),
    ] = "text",
    fail_on: Annotated[
        str,
        _option("--fail-on", "|".join(_PRIORITIES), "Exit with 8 for findings of this priority or a graver one."),
    ] = "P3",
    previous: Annotated[
        _Text, _option("--previous", "FILE", "JSON of the earlier review, to tell new findings from known ones.")
    ] = None,
    max_findings: Annotated[
        int | None, _option("--max-findings", "N", "Stop when so many findings are confirmed.", min=1)
    ] = None,
    output_file: Annotated[
        _Text, _option("--output-file", "FILE", "Write the result to this file instead.", "-o")
    ] = None,
    json_file: Annotated[
        _Text, _option("--json-file", "FILE", "Also write the review as JSON, for --previous.")
    ] = None,
    model: Annotated[_Text, _option("--model", "PROVIDER/MODEL", "Model to use.", "-m")] = None,
    effort: Annotated[_Text, _option("--effort", "|".join(get_args(Effort)), "Reasoning effort.")] = None,
    max_cost: Annotated[
        float | None, _option("--max-cost", "USD", "Limit on the cost of the whole review.")
    ] = None,
    max_turns: Annotated[
        int | None, _option("--max-turns", "N", "Limit on model calls per question.", min=1)
    ] = None,
    timeout: Annotated[
        float | None, _option("--timeout", "SECONDS", "Limit on the whole review, in seconds.")
    ] = None,
    cd: Annotated[_Text, _option("--cd", "DIR", "Review the repository of this directory.", "-C")] = None,
    config: Annotated[_Text, _option("--config", "FILE", "Read a further configuration file.")] = None,
    set_: Annotated[
        list[str] | None, _option("--set", "KEY=VALUE", "Set a configuration key (repeatable).")
    ] = None,
    no_session: Annotated[bool, typer.Option("--no-session", help="Do not save the session.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
) -> int:
    """Review a change without changing anything: findings that were checked, for people and for forges. Without a
    target: the uncommitted changes, else the branch against its base."""
    values = {
        "model": model, "effort": effort, "max_cost": max_cost, "max_turns": max_turns, "cd": cd,
        "config": config, "set": set_, "no_session": no_session, "quiet": quiet, "timeout": timeout,
    }  # fmt: skip
    chosen = ParsedOptions("run", {key: value for key, value in values.items() if value not in (None, False)})
    for option, limit in (("--max-cost", max_cost), ("--timeout", timeout)):
        if limit is not None and not limit > 0:  # nan is not either
            raise UsageError(f"{option}: {limit:g} is not greater than 0")
    _check(format, FORMATS, "--format")
    _check(fail_on, _PRIORITIES, "--fail-on")
    if effort is not None:
        _check(effort, get_args(Effort), "--effort")
    for option, name in (("--output-file", output_file), ("--json-file", json_file)):
        _check_target(option, name)
    try:
        order = ReviewOrder(
            asyncio.run(_selection(base, commit, uncommitted, patch)),
            Request(instructions or "", _previous(previous), max_findings),
            _PRIORITIES.index(fail_on),
        )
        review = asyncio.run(_reviewed(chosen, order))
    except ReviewError as error:
        raise UsageError(clean(str(error))) from error
    except (NoModel, MissingKey) as error:
        return cannot_start(error)
    except ModelError as error:
        print(f"agent: {clean(str(error))}", file=sys.stderr)
        return EXIT_CODES["bad_model"]
    return _told(review, format, output_file, json_file, quiet=quiet)


async def _selection(base: _Text, commit: _Text, uncommitted: bool, patch: _Text) -> Selection:
    given: dict[str, str] = {
        name: value for name, value in (("base", base), ("commit", commit), ("patch", patch)) if value is not None
    }
    if uncommitted:
        given["uncommitted"] = ""
    if len(given) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in given)} exclude each other: each is a target")
    for name, value in given.items():
        kind = cast(TargetKind, name)
        if kind == "patch":
            return Selection(kind, patch=await read_patch(Path(value)), name=os.path.basename(value))
        return Selection(kind, value)
    return Selection()


async def _reviewed(chosen: ParsedOptions, order: ReviewOrder) -> Review:
    stop = Stop()
    interrupted, terminated = partial(stop, "interrupted"), partial(stop, "terminated")
    if timeout_s := chosen.number("timeout"):
        asyncio.get_running_loop().call_later(timeout_s, stop, "time_limit")
    say = (lambda line: None) if chosen.flag("quiet") else _progress
    with signal_handlers({signal.SIGINT: interrupted, signal.SIGTERM: terminated, signal.SIGHUP: terminated}):
        return await carry_out(review_setup(chosen), order, say, stop)


def _progress(line: str) -> None:
    print(f"agent: {clean(line)}", file=sys.stderr, flush=True)


def _previous(name: _Text) -> tuple[Finding, ...]:
    if name is None:
        return ()
    try:
        return earlier_findings(read_regular(name, _LARGEST_PREVIOUS))
    except (OSError, PreviousError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--previous {name}: {clean(str(why))}") from error


def _check(value: str, choices: tuple[str, ...], option: str) -> None:
    if value not in choices:
        raise UsageError(f"{option}: {value!r} is not one of {', '.join(choices)}")


def _check_target(option: str, name: _Text) -> None:
    """Say before the review that a file cannot be written."""
    if name is not None and Path(name).is_dir():
        raise UsageError(f"{option} {name}: is a directory")
    if name is not None and not Path(name).absolute().parent.is_dir():
        raise UsageError(f"{option} {name}: its folder does not exist")


def _told(review: Review, format: str, output_file: _Text, json_file: _Text, *, quiet: bool) -> int:
    """Write the result; returns the exit code."""
    text = rendered(review, format)
    code = review.exit_code
    targets = [(output_file, text), (json_file, rendered(review, "json") if json_file else "")]
    for name, content in targets:
        if name is not None and not _written(name, content) and code < EXIT_CODES["interrupted"]:
            code = EXIT_CODES["internal_error"]
    if output_file is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    if (output_file is not None or format != "text") and not quiet:
        _progress(f"{about_target(review)}: {summary(review)}")
    if why := incomplete(review):
        _progress(why)
    return code


def _written(name: str, text: str) -> bool:
    try:
        Path(name).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        print(f"agent: cannot write {name}: {error.strerror}", file=sys.stderr)
        return False
    return True
