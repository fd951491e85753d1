"""Separate plausible records from those of a damaged or forged session file, which would spoil every sum that
includes them. Pure."""

from collections.abc import Iterable

import msgspec

from agent_cli.protocol.records import AnyRecord, Header

_MOST_TIME = float(1 << 34)
"""Maximum time in seconds since the epoch."""
_MOST = 1e9
"""Maximum seconds or US dollars of a record."""
_MOST_TOKENS = 1 << 40
_AMOUNTS = ("duration_s", "waited_s", "first_token_s", "cost_usd", "at_most_usd")
_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")


def plausible(records: Iterable[AnyRecord]) -> tuple[tuple[AnyRecord, ...], int]:
    """Return the plausible records, and the number of others. The header is always kept, with its time
    corrected."""
    found: list[AnyRecord] = []
    left_out = 0
    for record in records:
        if _is_plausible(record):
            found.append(record)
            continue
        left_out += 1
        if isinstance(record, Header):
            found.append(msgspec.structs.replace(record, time=0.0))
    return tuple(found), left_out


def _is_plausible(record: AnyRecord) -> bool:
    if not 0 <= record.time < _MOST_TIME:
        return False
    amounts = (getattr(record, name, None) for name in _AMOUNTS)
    usage = getattr(record, "usage", None)
    tokens = (getattr(usage, name, None) for name in _TOKENS)
    return all(each is None or abs(each) <= _MOST for each in amounts) and all(
        each is None or abs(each) <= _MOST_TOKENS for each in tokens
    )
