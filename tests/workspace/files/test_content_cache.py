"""Known contents come back exactly, and the least recently used go first."""

import os

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.workspace.files.content_cache import ContentCache


@given(st.lists(st.binary(max_size=60_000), max_size=5))
def test_contents_come_back(contents: list[bytes]) -> None:
    known = ContentCache()
    for number, data in enumerate(contents):
        known.keep(str(number), data)
    assert [known.get(str(number)) for number in range(len(contents))] == contents
    assert known.get("other") is None


def test_the_least_recently_used_goes() -> None:
    known = ContentCache(max_bytes=250_000)
    for name in "ab":
        known.keep(name, os.urandom(100_000))
    assert known.get("a") is not None
    known.keep("c", os.urandom(100_000))
    assert known.get("b") is None and known.get("a") is not None and known.get("c") is not None
    assert known.size_bytes <= 250_000


def test_text_is_kept_small_and_giants_are_not_kept() -> None:
    known = ContentCache(max_one_bytes=1_000_000)
    known.keep("text", b"the same line\n" * 50_000)
    assert known.size_bytes < 50_000
    known.keep("giant", bytes(1_000_001))
    assert known.get("giant") is None
