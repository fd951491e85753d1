"""`agent review`: findings on a change, checked and remembered."""

import inspect
from typing import Annotated, Any

import typer

from agent_cli.model.routing import MissingKey, NoModel

from ..services.completion import keyword, option_parameter
from ..services.review.options import OPTIONS


def review_command(**values: Any) -> int:
    """Review a change without changing anything: findings that were checked, for people and for forges. Without a
    target: the uncommitted changes, else the branch against its base."""
    from ..services.first_run import cannot_start
    from ..services.review.command import run_review

    try:
        return run_review(values)
    except (NoModel, MissingKey) as error:
        return cannot_start(error)


_WORDS = Annotated[str | None, typer.Argument(metavar="INSTRUCTIONS", help="What to look for beside the usual.")]
_PARAMETERS = (keyword("positional", _WORDS, None), *map(option_parameter, OPTIONS))
review_command.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]
review_command.__annotations__ = {each.name: each.annotation for each in _PARAMETERS}
