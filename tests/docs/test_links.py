"""Links lead somewhere, and each block says what it is."""

from collections import Counter
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, blocks, links, name_of, spans

LANGUAGES = {"sh", "console", "text", "yaml", "json", "markdown", "python"}
each = pytest.mark.parametrize("page", PAGES, ids=name_of)


@each
def test_a_link_leads_to_a_file_and_a_heading_of_the_repository(page: Path) -> None:
    lost = []
    for link in links(page):
        target, _, anchor = link.text.partition("#")
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.is_relative_to(ROOT) or not file.exists() or (anchor and anchor not in anchors(file)):
            lost.append(f"{link.place}: {link.text}")
    assert lost == []


def test_no_link_needs_the_network() -> None:
    assert [link for page in PAGES for link in links(page) if "://" in link.text] == []


@each
def test_every_page_is_linked_from_the_readme(page: Path) -> None:
    linked = {(ROOT / link.text.partition("#")[0]).resolve() for link in links(ROOT / "README.md")}
    assert page == ROOT / "README.md" or page in linked


@each
def test_a_page_begins_with_its_title_and_has_only_one(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ") and text.endswith("\n") and not text.endswith("\n\n")
    assert [name for name, count in Counter(anchors(page)).items() if count > 1] == []


def test_every_block_says_in_what_language_it_is() -> None:
    assert [block.place for block in blocks() if block.language not in LANGUAGES] == []


def test_files_of_the_repository_that_are_named_are_there() -> None:
    folders = ("docs/", "tests/", "agent_cli/", "scripts/", "sessions/", "benchmarks/", "examples/")
    named = [word for word in spans() if word.text.startswith(folders) and "<" not in word.text]
    lost = [f"{word.place}: {word.text}" for word in named if not any(ROOT.glob(word.text.rstrip("/")))]
    assert lost == [] and named
