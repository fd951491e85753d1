"""`agent review`, from its options to its output and exit code."""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any

from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.setup import check_output_file
from agent_cli.fs.waiting_io import WriteInterrupted, write_output
from agent_cli.model.routing import MissingKey
from agent_cli.model.types.base import ModelError
from agent_cli.protocol.sanitize import clean, one_line
from agent_cli.protocol.stop_reason import EXIT_CODES
from agent_cli.review.finding import Review
from agent_cli.review.formats.all import rendered
from agent_cli.review.formats.text import about_target, incomplete, summary, without_commands
from agent_cli.review.git_reader import ReviewError
from agent_cli.ui.headless.runner import StopHandle
from agent_cli.ui.signals import ENDING, signal_handlers

from .options import FORMATS
from .reviewing import ReviewOrder, carry_out, order_of, review_setup

_STDIN = "/dev/stdin"


def run_review(values: dict[str, Any]) -> int:
    """Run the review that the options, given by key, describe; return the exit code.

    Raises:
        UsageError, ConfigError, NoModel, MissingKey: nothing was reviewed.
    """
    chosen = ParsedOptions("run", values)
    targets = _targets(chosen)
    if values.get("patch") == "-":
        values = {**values, "patch": _STDIN}
    try:
        order = asyncio.run(order_of(values, Path()))
        review = asyncio.run(_reviewed(chosen, order))
    except ReviewError as error:
        raise UsageError(clean(str(error))) from error
    except ModelError as error:
        if isinstance(error, MissingKey):
            raise
        _progress(str(error))
        return EXIT_CODES["bad_model"]
    return _told(review, chosen, targets)


async def _reviewed(chosen: ParsedOptions, order: ReviewOrder) -> Review:
    stopper = StopHandle()
    if timeout_s := chosen.number("timeout"):
        asyncio.get_running_loop().call_later(timeout_s, stopper.stop, "time_limit")
    say = (lambda line: None) if chosen.flag("quiet") else _progress
    with signal_handlers({number: partial(stopper.stop, why, number) for number, why in ENDING.items()}):
        return await carry_out(review_setup(chosen), order, say, stopper)


def _progress(line: str) -> None:
    one = one_line(line)  # a name may contain line breaks, and a CI runner obeys lines
    print(f"agent: {without_commands(one)}", file=sys.stderr, flush=True)


def _targets(chosen: ParsedOptions) -> list[tuple[str, str]]:
    """Return the formats and files to write; all are checked before the review."""
    found = []
    if (name := chosen.text("output_file")) is not None:
        found.append(("--output-file", chosen.text("format") or "text", name))
    for text in chosen.several("also"):
        format, equals, name = text.partition("=")
        if not equals or not name or format not in FORMATS:
            raise UsageError(f"--also {text}: write FORMAT=FILE; formats are {', '.join(FORMATS)}")
        found.append(("--also", format, name))
    for option, _, name in found:
        check_output_file(option, name)
    return [(format, name) for _, format, name in found]


def _told(review: Review, chosen: ParsedOptions, targets: list[tuple[str, str]]) -> int:
    """Write the result; return the exit code."""
    format, output_file = chosen.text("format") or "text", chosen.text("output_file")
    code = review.exit_code
    for other, name in targets:
        if not _written(name, rendered(review, other)) and code < EXIT_CODES["interrupted"]:
            code = EXIT_CODES["internal_error"]
    if output_file is None:
        sys.stdout.write(rendered(review, format))
        sys.stdout.flush()
    if (output_file is not None or format != "text") and not chosen.flag("quiet"):
        _progress(f"{about_target(review)}: {summary(review)}")
    if review.cost_usd is not None and not chosen.flag("quiet"):
        _progress(f"{review.model}, {review.cost_usd:.2f} USD")
    if why := incomplete(review):
        _progress(why)
    return code


def _written(name: str, text: str) -> bool:
    try:
        write_output(name, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        _progress(f"cannot write {name}: {error.strerror}")
        return False
    except WriteInterrupted:
        _progress(f"{name} was not written completely: nobody read it")
        return False
    return True
