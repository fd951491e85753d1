"""The review described by the options."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from agent_cli.bootstrap.options import UsageError
from agent_cli.fs.files import read_regular
from agent_cli.review.finding import Finding, PreviousError, TargetKind, earlier_findings
from agent_cli.review.material import Selection, read_patch
from agent_cli.review.passes import Request

from .options import LIMITS, PRIORITIES, TARGETS

_LARGEST_PREVIOUS = 50_000_000


class ReviewOrder(msgspec.Struct, frozen=True):
    """A requested review."""

    selection: Selection
    request: Request
    fail_on: int = len(PRIORITIES) - 1


async def order_of(values: Mapping[str, Any], folder: Path) -> ReviewOrder:
    """Return the review that the options, given by key, describe; `positional` contains the instructions. Paths
    are relative to `folder`.

    Raises:
        UsageError: options exclude each other, or have invalid values.
        ReviewError: a patch cannot be read.
    """
    given = [option.key for option in TARGETS if values.get(option.key) not in (None, False)]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(f'--{name}' for name in given)} cannot be combined: review one target at a time"
        )
    for option in LIMITS:
        limit = values.get(option.key)
        if limit is not None and not limit > 0:  # also rejects nan
            raise UsageError(f"{option.names[0]}: {limit:g} is not greater than 0")
    kind: TargetKind | None = next((each for each in get_args(TargetKind) if each in given), None)
    ref = values.get(kind) if kind in ("base", "commit", "patch") else None
    selection = Selection(kind, ref or "")
    if kind == "patch" and ref is not None:
        selection = Selection(kind, patch=await read_patch(folder / ref), name=os.path.basename(ref))
    request = Request(
        values.get("positional") or "", _previous(values.get("previous"), folder), values.get("max_findings")
    )
    return ReviewOrder(selection, request, PRIORITIES.index(values.get("fail_on") or PRIORITIES[-1]))


def _previous(name: str | None, folder: Path) -> tuple[Finding, ...]:
    if name is None:
        return ()
    try:
        return earlier_findings(read_regular(folder / name, _LARGEST_PREVIOUS))
    except (OSError, PreviousError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--previous {name}: {why}") from error
