"""`agent review`: checked and stored findings about a change."""

from typing import Annotated, Any

import typer

from agent_cli.model.routing import MissingKey, NoModel

from ..services.completion import with_options
from ..services.review.options import OPTIONS


@with_options(*OPTIONS)
def review_command(
    instructions: Annotated[
        str | None, typer.Argument(metavar="INSTRUCTIONS", help="What to look for in addition.")
    ] = None,
    *,
    given: dict[str, Any],
) -> int:
    """Review a change and report checked findings; no file is changed. Without a target: the uncommitted changes,
    or the branch against its base if there are none."""
    from ..services.early_result import cannot_start
    from ..services.review.command import run_review

    try:
        return run_review({**given, "positional": instructions})
    except (NoModel, MissingKey) as error:
        return cannot_start(error)
