"""What completion offers for `@` and `/`."""

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agent_cli.ui.repl.completion import InputCompleter, Paths
from agent_cli.ui.services import OwnPrompt
from agent_cli.ui.text.fuzzy_paths import Fragment, span
from agent_cli.workspace.path_listing import offered, offered_in
from tests.costs import assert_linear
from tests.fs.crowd import crowd
from tests.fuzz import tries
from tests.rows import each_row
from tests.ui.fake_client import FakeClient, FakeHost


class Host(FakeHost):
    """Looks into real folders."""

    def paths_in(self, root: str, folder: str, begun: str) -> tuple[str, ...]:
        return tuple(offered_in(root, folder, begun))


class Desk:
    """What completion asks for."""

    def __init__(self, **own: OwnPrompt) -> None:
        self.host = Host(**own)


def completer(root: Path, paths: Paths | None = None, **own: OwnPrompt) -> InputCompleter:
    return InputCompleter(Desk(**own), lambda: str(root), paths or offered)  # type: ignore[arg-type]


def offers(root: Path, text: str, paths: Paths | None = offered, **own: OwnPrompt) -> list[str]:
    """The line as it would be with each of what is offered."""
    found = completer(root, paths, **own).get_completions(Document(text), CompleteEvent())
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


@settings(max_examples=tries(200), deadline=None)
@given(st.text(alphabet="ab/", max_size=12), st.text(alphabet="ab/", min_size=1, max_size=4))
def test_letters_in_order_are_found_in_the_least_room_behind_them(text: str, sought: str) -> None:
    def is_within(part: str) -> bool:
        letters = iter(part)
        return all(char in letters for char in sought)

    room = span(text, sought)
    assert (room is not None) == is_within(text)
    if room is not None:
        assert any(is_within(text[at : at + room + 1]) for at in range(len(text)))


def test_a_pattern_that_never_fits_costs_no_more_than_the_text_is_long() -> None:
    def search(length: int) -> None:
        for _ in range(20):
            assert span("a" * length, "a" * 30 + "b") is None
        assert Fragment("a" * 30 + "b").best(["a" * length] * 20, 30, loosely=True) == []

    assert_linear(search, 200)


@each_row("sought", ["]", "^", "\\", "a-b", ".*", "[x", "src/^"])
def test_letters_with_a_meaning_of_their_own_are_letters(sought: str) -> None:
    assert Fragment(sought).best(["x/y", f"d/z{sought}q", "src/zz"], 30, loosely=True) == [f"d/z{sought}q"]


@pytest.mark.parametrize(
    ("sought", "first"), [("store_00017", "src/engine17/view_17/part17/store_00017.py"), ("svq", ""), ("zzz", "")]
)
def test_each_of_many_paths_costs_the_same(sought: str, first: str) -> None:
    paths = [f"src/engine{n % 50}/view_{n % 211}/part{n % 97}/store_{n:05}.py" for n in range(24_000)]
    assert Fragment(sought).best(paths, 30, loosely=True)[:1] == ([first] if first else [])
    assert_linear(lambda count: Fragment(sought).best(paths[:count], 30, loosely=True), 3_000)


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12,000 files in 120 folders."""
    root = tmp_path_factory.mktemp("forest")
    for folder in range(120):
        place = root / f"area{folder % 20:02}" / f"part{folder:03}"
        place.mkdir(parents=True)
        crowd(place, (f"unit_{folder:03}_{number:02}.py" for number in range(100)))
    return root


def test_a_large_workspace_is_searched_as_a_whole(forest: Path) -> None:
    unhurried = partial(offered, limit_s=60.0)
    assert offers(forest, "@unit_119_99", unhurried) == ["@area19/part119/unit_119_99.py"]
    assert offers(forest, "@area07/part007/unit_007_5", unhurried)[0] == "@area07/part007/unit_007_50.py"


def test_suggestions_come_while_the_walk_goes_on(tmp_path: Path) -> None:
    goes_on, has_begun = threading.Event(), threading.Event()

    def slow(root: str) -> Iterator[str]:
        yield from ("docs/", "src/", "src/parser.py", "p_a_r_s_e_r")
        has_begun.set()
        assert goes_on.wait(10)
        yield "late/parser.md"

    it = completer(tmp_path, slow)
    found = iter(it.get_completions(Document("@parser"), CompleteEvent()))
    assert next(found).text == "src/parser.py" and has_begun.is_set() and not goes_on.is_set()
    goes_on.set()
    assert [each.text for each in found] == ["late/parser.md", "p_a_r_s_e_r"]


def test_what_the_walk_has_no_room_for_is_found_in_the_folder_that_is_named(tmp_path: Path) -> None:
    for name in ("deep/er/still/here.py", "deep/er/.env", "build/x.py", "secret/y.py", "src/a b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n", encoding="utf-8")
    (tmp_path / ".agentignore").write_text("secret/\n", encoding="utf-8")
    (tmp_path / "way").symlink_to("deep")

    def nothing(root: str) -> Iterator[str]:
        yield from ()

    def found(text: str) -> list[str]:
        return offers(tmp_path, text, nothing)

    assert found("@deep/er/still/") == ["@deep/er/still/here.py"] and found("@deep/er/st") == ["@deep/er/still/"]
    assert found("@deep/er/.e") == ["@deep/er/.env"] and found('@"src/a') == ['@"src/a b.py"']
    for text in (
        "@here",
        "@build/",
        "@secret/",
        "@way/",
        "@way/er/",
        "@../",
        "@/etc/",
        "@deep/../src/",
        "@gone/x",
    ):
        assert found(text) == [], text
    crowd(tmp_path / "deep", (f"n{number:05}" for number in range(6_000)))
    assert found("@deep/N0599")[:10] == [f"@deep/n0599{digit}" for digit in range(10)]


def test_the_workspace_is_walked_again_when_that_is_long_ago_and_the_old_walk_counts_meanwhile(
    tmp_path: Path,
) -> None:
    walks: list[int] = []
    goes_on = threading.Event()

    def counted(root: str) -> Iterator[str]:
        walks.append(len(walks))
        yield f"file{len(walks)}.py"
        assert len(walks) == 1 or goes_on.wait(10)

    it = InputCompleter(Desk(), lambda: str(tmp_path), counted, fresh_s=0.0)  # type: ignore[arg-type]

    def offered_now() -> list[str]:
        return [each.text for each in it.get_completions(Document("@file"), CompleteEvent())]

    assert offered_now() == ["file1.py"]
    assert offered_now() == ["file1.py"]
    goes_on.set()
    end = time.monotonic() + 60
    while offered_now() == ["file1.py"]:
        assert time.monotonic() < end
    assert len(walks) <= 3


def test_arguments_are_offered_for_what_there_is(tmp_path: Path) -> None:
    desk = Desk()
    desk.client = FakeClient()  # type: ignore[attr-defined]
    it = InputCompleter(desk, lambda: str(tmp_path), offered)  # type: ignore[arg-type]

    def values(text: str) -> list[str]:
        return [each.text for each in it.get_completions(Document(text), CompleteEvent())]

    assert values("/rewind 3") == ["3", "3 code", "3 conversation"] and values("/fork ") == ["3", "1"]
    assert values("/context drop") == ["drop 1", "drop 2", "drop 3"] and "light" in values("/theme li")
    assert values("/config them") == ["ui.theme"] and values("/model oth") == ["test/other"]
    assert (
        values("/copy c") == ["code"] and values("/resume a") == ["abc123"] and values("/memory ") == ["project"]
    )


def test_own_commands_are_offered_with_what_they_do(tmp_path: Path) -> None:
    own = {
        "fix": OwnPrompt("Fix.", "/c/fix.md", agreed=True),
        "git:commit": OwnPrompt("Commit.", "/c/git/commit.md", agreed=True),
        "quit": OwnPrompt("Evil.", "/c/quit.md", agreed=True),
        "broken": OwnPrompt("", "/c/broken.md", agreed=True, problem="no text"),
    }
    it = completer(tmp_path, **own)
    found = list(it.get_completions(Document("/fi"), CompleteEvent()))
    assert [(each.text, each.display_meta_text) for each in found] == [("fix", "[WORDS]  about fix")]
    assert "/git:commit" in offers(tmp_path, "/com", **own) and offers(tmp_path, "/qui", **own) == ["/quit"]
    assert offers(tmp_path, "/brok", **own) == []
