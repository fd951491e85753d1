"""What completion offers for `@` and `/`."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agent_cli.ui.completion import InputCompleter, Paths, _span
from agent_cli.workspace.offered import offered


class Desk:
    """Nothing that is completed here asks it for anything."""


def completer(root: Path, paths: Paths | None = None) -> InputCompleter:
    return InputCompleter(Desk(), lambda: str(root), paths or offered)  # type: ignore[arg-type]


def offers(root: Path, text: str, paths: Paths | None = offered) -> list[str]:
    """The line as it would be with each of what is offered."""
    found = completer(root, paths).get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + each.start_position] + each.text for each in found]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        "src/app/main.py", "src/map.py", "docs/my notes.md", "my folder/a.txt", ".github/workflows/ci.yml", ".env",
        "README.md", "end.", "build/out.js", "keep/build/x.py", "secret/key.md", 'quo"te.md', "new\nline.md",
        "node_modules/x/index.js", "ünï/cödé.py",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("/build/\n", encoding="utf-8")
    (tmp_path / ".agentignore").write_text("secret/\n", encoding="utf-8")
    return tmp_path


def test_files_and_folders_are_offered_and_folders_end_in_a_slash(root: Path) -> None:
    assert offers(root, "see @main") == ["see @src/app/main.py"]
    assert offers(root, "@src/")[0] == "@src/" and set(offers(root, "@src/")) >= {"@src/app/", "@src/map.py"}
    assert offers(root, "@app")[:2] == ["@src/app/", "@src/app/main.py"]
    assert offers(root, "(@map")[0] == "(@src/map.py"


def test_a_name_that_a_prompt_would_cut_is_quoted(root: Path) -> None:
    assert offers(root, "@notes") == ['@"docs/my notes.md"']
    assert offers(root, '@"my no') == ['@"docs/my notes.md"']
    assert offers(root, "@my folder") == [], "the fragment ends at the blank"
    assert offers(root, '@"my folder/') == ['@"my folder/"', '@"my folder/a.txt"']
    assert offers(root, "@end") == ['@"end."'] and offers(root, '@"READ') == ['@"README.md"']


def test_hidden_files_are_offered_to_who_begins_with_a_dot(root: Path) -> None:
    assert offers(root, "@ci.yml") == []
    assert offers(root, "@.gith")[0] == "@.github/" and "@.github/workflows/ci.yml" in offers(root, "@.gith")
    assert offers(root, "@.env") == ["@.env"]
    assert all("/.git/" not in each for each in offers(root, "@.git"))


def test_what_is_ignored_closed_or_cannot_be_typed_is_not_offered(root: Path) -> None:
    everything = " ".join(offers(root, "@"))
    for name in ("@build/", "secret", "node_modules", "quo", "new"):
        assert name not in everything, name
    assert offers(root, "@keep/build") == ["@keep/build/", "@keep/build/x.py"]
    assert offers(root, "@out.js") == []


def test_nothing_typed_offers_the_top_first(root: Path) -> None:
    found = [each.strip('@"') for each in offers(root, "@")]
    assert found[:7] == ["README.md", "docs/", "end.", "keep/", "my folder/", "src/", "ünï/"]
    assert all("/" in each.rstrip("/") for each in found[7:]) and "src/map.py" in found


@pytest.mark.parametrize("text", ["me@main", "a @main b", "/help @main\n", "@@main", "@src/map.py "])
def test_no_mention_no_offer(root: Path, text: str) -> None:
    assert offers(root, text) == []


def test_commands_and_their_values(root: Path) -> None:
    assert offers(root, "/und") == ["/undo"] and "/mode plan" in offers(root, "/mode p")
    assert offers(root, "/und\n") == []


def test_the_workspace_is_walked_once_in_a_while(root: Path) -> None:
    walks = []

    def counted(folder: str) -> list[str]:
        walks.append(folder)
        return ["a.py"]

    it = completer(root, counted)
    for _ in range(5):
        assert list(it.get_completions(Document("@a"), CompleteEvent()))
    assert walks == [str(root)]


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab/", max_size=12), st.text(alphabet="ab/", min_size=1, max_size=4))
def test_letters_in_order_are_found_in_the_least_room_behind_them(text: str, sought: str) -> None:
    def is_within(part: str) -> bool:
        letters = iter(part)
        return all(char in letters for char in sought)

    span = _span(text, sought)
    assert (span is not None) == is_within(text)
    if span is not None:
        assert any(is_within(text[at : at + span + 1]) for at in range(len(text)))


def test_a_pattern_that_never_fits_takes_no_time() -> None:
    begun = time.perf_counter()
    for _ in range(2_000):
        assert _span("a" * 400, "a" * 30 + "b") is None
    assert time.perf_counter() - begun < 0.5
