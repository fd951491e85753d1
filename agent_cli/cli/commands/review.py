"""`agent review`: checked and stored findings about a change."""

from typing import Annotated, Any

import typer

from agent_cli.model.routing import MissingKey, NoModel

from ..services.completion import declare, keyword, option_parameter
from ..services.review.options import OPTIONS


def review_command(**values: Any) -> int:
    """Review a change and report checked findings; no file is changed. Without a target: the uncommitted changes,
    or the branch against its base if there are none."""
    from ..services.early_result import cannot_start
    from ..services.review.command import run_review

    try:
        return run_review(values)
    except (NoModel, MissingKey) as error:
        return cannot_start(error)


_WORDS = Annotated[str | None, typer.Argument(metavar="INSTRUCTIONS", help="What to look for in addition.")]
_PARAMETERS = (keyword("positional", _WORDS, None), *map(option_parameter, OPTIONS))
declare(review_command, _PARAMETERS)
