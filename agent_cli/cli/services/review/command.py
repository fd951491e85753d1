"""`agent review`, from its options to its exit code; where the result goes."""

import asyncio
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from agent_cli.model.routing import MissingKey
from agent_cli.model.types.base import ModelError
from agent_cli.protocol.sanitize import clean
from agent_cli.protocol.stop_reason import EXIT_CODES
from agent_cli.review.finding import Review
from agent_cli.review.formats.all import rendered
from agent_cli.review.formats.text import about_target, incomplete, summary, without_commands
from agent_cli.review.git_reader import ReviewError
from agent_cli.ui.signals import signal_handlers

from ...setup.options import ParsedOptions, UsageError
from .options import FORMATS, OPTIONS
from .order import ReviewOrder, order_of
from .reviewing import Stop, carry_out, review_setup


def run_review(values: dict[str, Any]) -> int:
    """Review what the options ask for, which are given by their keys; returns the exit code.

    Raises:
        UsageError, ConfigError, NoModel, MissingKey: nothing was reviewed.
    """
    for option in OPTIONS:
        value = values.get(option.key)
        if option.choices and value is not None and value not in option.choices:
            raise UsageError(f"{option.names[0]}: {value!r} is not one of {', '.join(option.choices)}")
    chosen = ParsedOptions("run", {key: value for key, value in values.items() if value not in (None, False)})
    targets = _targets(chosen)
    try:
        order = asyncio.run(order_of(values, Path()))
        review = asyncio.run(_reviewed(chosen, order))
    except ReviewError as error:
        raise UsageError(clean(str(error))) from error
    except ModelError as error:
        if isinstance(error, MissingKey):
            raise
        print(f"agent: {clean(str(error))}", file=sys.stderr)
        return EXIT_CODES["bad_model"]
    return _told(review, chosen, targets)


async def _reviewed(chosen: ParsedOptions, order: ReviewOrder) -> Review:
    stop = Stop()
    interrupted, terminated = partial(stop, "interrupted"), partial(stop, "terminated")
    if timeout_s := chosen.number("timeout"):
        asyncio.get_running_loop().call_later(timeout_s, stop, "time_limit")
    say = (lambda line: None) if chosen.flag("quiet") else _progress
    with signal_handlers({signal.SIGINT: interrupted, signal.SIGTERM: terminated, signal.SIGHUP: terminated}):
        return await carry_out(review_setup(chosen), order, say, stop)


def _progress(line: str) -> None:
    print(f"agent: {without_commands(clean(line))}", file=sys.stderr, flush=True)


def _targets(chosen: ParsedOptions) -> list[tuple[str, str]]:
    """Return the formats and files to write.

    Raises:
        UsageError: there is no such format, or a file cannot be written; that is said before the review.
    """
    found = []
    if (name := chosen.text("output_file")) is not None:
        found.append(("--output-file", chosen.text("format") or "text", name))
    for text in chosen.several("also"):
        format, equals, name = text.partition("=")
        if not equals or not name or format not in FORMATS:
            raise UsageError(f"--also {text}: write FORMAT=FILE; formats are {', '.join(FORMATS)}")
        found.append(("--also", format, name))
    for option, _, name in found:
        if Path(name).is_dir():
            raise UsageError(f"{option} {name}: is a directory")
        if not Path(name).absolute().parent.is_dir():
            raise UsageError(f"{option} {name}: its folder does not exist")
    return [(format, name) for _, format, name in found]


def _told(review: Review, chosen: ParsedOptions, targets: list[tuple[str, str]]) -> int:
    """Write the result; returns the exit code."""
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
        Path(name).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        print(f"agent: cannot write {name}: {error.strerror}", file=sys.stderr)
        return False
    return True
