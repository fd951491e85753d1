"""Read contents from the private store in batches of bounded size, to limit memory use."""

from collections.abc import AsyncIterator, Collection, Mapping

from .git import PrivateGit
from .restore import NESTED, Entry

_BATCH_BYTES = 64_000_000
Pairs = Mapping[str, tuple[Entry, Entry]]


async def contents(git: PrivateGit, blobs: Collection[str]) -> dict[str, bytes]:
    """Return the contents of blobs.

    Raises:
        CheckpointError: the store cannot be read.
    """
    unique = sorted({blob for blob in blobs if blob})
    if not unique:
        return {}
    raw = await git("cat-file", "--batch", input=_lines(unique))
    found: dict[str, bytes] = {}
    at = 0
    for blob in unique:
        end = raw.index(b"\n", at)
        fields = raw[at:end].split(b" ")
        if len(fields) < 3:
            at = end + 1
            continue
        size = int(fields[2])
        found[blob] = raw[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
    return found


async def batches(
    git: PrivateGit, pairs: Pairs
) -> AsyncIterator[tuple[dict[str, tuple[Entry, Entry]], dict[str, bytes]]]:
    """Yield batches of paths with the contents of their second states."""
    sizes = await _sizes(git, {new.blob for _, new in pairs.values() if new.kind != NESTED})
    batch: dict[str, tuple[Entry, Entry]] = {}
    size = 0
    for path, pair in pairs.items():
        more = sizes.get(pair[1].blob, 0)
        if batch and size + more > _BATCH_BYTES:
            yield batch, await contents(git, _needed(batch))
            batch, size = {}, 0
        batch[path] = pair
        size += more
    if batch:
        yield batch, await contents(git, _needed(batch))


def _needed(pairs: Pairs) -> list[str]:
    return [new.blob for _, new in pairs.values() if new.kind != NESTED]


async def _sizes(git: PrivateGit, blobs: Collection[str]) -> dict[str, int]:
    if not blobs:
        return {}
    raw = await git("cat-file", "--batch-check=%(objectname) %(objectsize)", input=_lines(sorted(blobs)))
    fields = [line.split(" ") for line in raw.decode().splitlines()]
    return {each[0]: int(each[1]) for each in fields if len(each) == 2 and each[1].isdigit()}


def _lines(blobs: list[str]) -> bytes:
    return "".join(f"{blob}\n" for blob in blobs).encode()
