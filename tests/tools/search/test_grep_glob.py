"""grep, glob and list_dir on ripgrep."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.protocol.actions import ReadPath
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.search import ripgrep
from tests.fs.crowd import crowd
from tests.tools.calls import REGISTRY, call


@pytest.fixture
def tree(root: Path) -> Path:
    """A small project with ignored parts."""
    files = {
        ".gitignore": "node_modules/\n*.log\n!keep.log\n",
        "src/app.py": "import os\n\ndef main():\n    return os.name\n",
        "src/deep/util.py": "def helper():\n    pass\n",
        "src/app.js": "function main() {}\n",
        "node_modules/dep/index.js": "function main() {}\n",
        "debug.log": "main\n",
        "keep.log": "main\n",
        ".hidden/conf": "main = 1\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


SKIPPED = "[2 ignored files or folders skipped: debug.log, node_modules]"


async def test_grep_groups_by_file_and_names_what_it_skipped(context: ToolContext, tree: Path) -> None:
    outcome = await call(context, "grep", pattern="main")
    assert outcome.text == (
        ".hidden/conf\n1: main = 1\nkeep.log\n1: main\nsrc/app.js\n1: function main() {}\nsrc/app.py\n"
        f"3: def main():\n[4 matches in 4 files]\n{SKIPPED}"
    )


async def test_a_cache_that_ignores_itself_is_named_as_one_folder(context: ToolContext, tree: Path) -> None:
    (tree / "src" / ".cache" / "deep").mkdir(parents=True)
    for name in (".gitignore", "TAG", "deep/a"):
        (tree / "src" / ".cache" / name).write_text("*\n", encoding="utf-8")
    outcome = await call(context, "grep", pattern="main")
    assert outcome.text.endswith("[3 ignored files or folders skipped: debug.log, node_modules, src/.cache]")
    (tree / ".gitignore").write_text("*\n", encoding="utf-8")
    above = await call(context, "glob", pattern="*.none", path="src")
    assert above.text.endswith("skipped: src/.cache, src/app.js, src/app.py, src/deep]")


async def test_caches_of_usual_tools_are_not_worth_a_note(context: ToolContext, tree: Path) -> None:
    with (tree / ".gitignore").open("a", encoding="utf-8") as file:
        file.write("__pycache__/\n")
    for place in ("src/__pycache__/a.pyc", ".ruff_cache/.gitignore"):
        (tree / place).parent.mkdir()
        (tree / place).write_text("*\n", encoding="utf-8")
    assert (await call(context, "grep", pattern="main")).text.endswith(SKIPPED)
    listed = await call(context, "list_dir", depth=3)
    assert "__pycache__/ (ignored)" in listed.text and ".ruff_cache/ (ignored)" in listed.text


async def test_grep_with_context(context: ToolContext, tree: Path) -> None:
    (tree / "many").write_text("x\n1\n2\n3\n4\nx\n", encoding="utf-8")
    outcome = await call(context, "grep", pattern="x", path="many", context=1)
    assert outcome.text.startswith("many\n1: x\n2- 1\n--\n5- 4\n6: x\n[2 matches in 1 file]")


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*.py", ["src/app.py"]),
        ("src/*.py", ["src/app.py"]),
        ("src/**/*.{js,py}", ["src/app.js", "src/app.py"]),
        ("!src/**", [".hidden/conf", "keep.log"]),
        ("*.log", ["keep.log"]),
    ],
)
async def test_grep_in_files_of_a_glob(context: ToolContext, tree: Path, glob: str, files: list[str]) -> None:
    outcome = await call(context, "grep", pattern="main", glob=glob, files_only=True)
    assert [line for line in outcome.text.splitlines() if not line.startswith("[")] == files
    whole = await call(context, "grep", pattern="main", glob=glob)
    assert [line for line in whole.text.splitlines() if line in files] == files
    assert SKIPPED in whole.text


async def test_grep_options(context: ToolContext, tree: Path) -> None:
    assert "[No matches]" in (await call(context, "grep", pattern="MAIN")).text
    assert "[4 matches" in (await call(context, "grep", pattern="MAIN", ignore_case=True)).text
    assert "[1 match" in (await call(context, "grep", pattern=r"def main\(\):\n    return")).text
    assert "[1 match" in (await call(context, "grep", pattern="-e|def (?=helper)")).text
    inside = await call(context, "grep", pattern="def", path="src/deep")
    assert inside.text.startswith("src/deep/util.py\n1: def helper():")
    ignored = await call(context, "grep", pattern="main", path="node_modules")
    assert ignored.text.startswith("node_modules/dep/index.js\n")
    assert "debug.log\n1: main" in (await call(context, "grep", pattern="main", path="debug.log")).text


async def test_grep_is_bounded_and_says_how_to_see_more(context: ToolContext, tree: Path) -> None:
    (tree / "many.txt").write_text("needle\n" * 5000, encoding="utf-8")
    outcome = await call(context, "grep", pattern="needle", limit=7)
    assert outcome.text.count("needle") == 7 and "The first 7 matches, in 1 file; there are more." in outcome.text
    (tree / "wide.txt").write_text(("needle" + "y" * 390 + "\n") * 5000, encoding="utf-8")
    outcome = await call(context, "grep", pattern="needle", path="wide.txt", limit=1000)
    assert len(outcome.text) < 32_000 and "there are more" in outcome.text


async def test_a_long_line_is_shown_around_the_match(context: ToolContext, root: Path) -> None:
    (root / "min.js").write_text("a" * 3_000_000 + "needle" + "b" * 3_000_000 + "\n", encoding="utf-8")
    outcome = await call(context, "grep", pattern="needle")
    line = outcome.text.splitlines()[1]
    assert len(line) < 500 and "aaaneedlebbb" in line and "[…2999880 bytes…]" in line
    (root / "min.js").write_text("a" * 20_000_000 + "needle\n", encoding="utf-8")
    outcome = await call(context, "grep", pattern="needle")
    assert "there are more" in outcome.text


async def test_an_invalid_pattern_is_explained(context: ToolContext, tree: Path) -> None:
    with pytest.raises(ToolError, match=r"(?s)Invalid pattern.*unclosed group.*escape them"):
        await call(context, "grep", pattern="foo(")
    with pytest.raises(ToolError, match="pattern is empty"):
        await call(context, "grep", pattern="")
    os.mkfifo(tree / "pipe")
    with pytest.raises(ToolError, match="neither a file nor a folder"):
        await call(context, "grep", pattern="x", path="pipe")
    assert "[4 matches" in (await call(context, "grep", pattern="main")).text
    with pytest.raises(ToolError, match="none does not exist"):
        await call(context, "grep", pattern="x", path="none")
    with pytest.raises(ToolError, match="more than 64"):
        await call(context, "grep", pattern="x", glob="{a,b}" * 8)


async def test_the_users_ripgrep_settings_do_not_matter(
    context: ToolContext, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "rc").write_text("--files-without-match\n", encoding="utf-8")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tree / "rc"))
    assert "[4 matches" in (await call(context, "grep", pattern="main")).text


async def test_text_that_is_not_utf8_is_found(context: ToolContext, root: Path) -> None:
    (root / "latin").write_bytes(b"caf\xe9 needle\n")
    (root / "wide").write_bytes("a needle\n".encode("utf-16"))
    outcome = await call(context, "grep", pattern="needle")
    assert "caf\ufffd needle" in outcome.text and "a needle" in outcome.text


HOSTILE = ["-rf", "new\nline", "ü 漢🎉", "a:1:b", "n" * 255, "esc\x1b[31m"]


async def test_hostile_names_come_out_on_one_line(context: ToolContext, root: Path) -> None:
    for name in HOSTILE:
        (root / name).write_text("needle\n", encoding="utf-8")
    Path(os.fsdecode(bytes(root) + b"/raw\xff")).write_text("needle\n", encoding="utf-8")
    shown = {"-rf", "new\\nline", "ü 漢🎉", "a:1:b", "n" * 255, "esc\\x1b[31m", "raw\\udcff"}
    found = await call(context, "grep", pattern="needle")
    assert shown <= set(found.text.splitlines()) and "[7 matches in 7 files]" in found.text
    for outcome in (
        await call(context, "glob", pattern="*"),
        await call(context, "grep", pattern="needle", files_only=True),
    ):
        assert shown <= set(outcome.text.splitlines())
    listed = await call(context, "list_dir")
    assert {line.rpartition("  ")[0] for line in listed.text.splitlines()} == shown
    for outcome in (found, listed):
        outcome.text.encode("utf-8")


async def test_glob_gives_the_newest_first(context: ToolContext, tree: Path) -> None:
    for age, name in enumerate(("src/deep/util.py", "src/app.py")):
        os.utime(tree / name, (1000 - age, 1000 - age))
    outcome = await call(context, "glob", pattern="*.py")
    assert outcome.text == f"src/deep/util.py\nsrc/app.py\n[2 files, newest first]\n{SKIPPED}"
    assert (await call(context, "glob", pattern=f"{tree}/src/*.py")).text.startswith("src/app.py\n[1 file")
    inner = await call(context, "glob", pattern="*.py", path="src/deep")
    assert inner.text.startswith("src/deep/util.py\n[1 file")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("./*.txt", ["café.txt"]), ("./src/**/*.txt", ["src/a.txt"]), ("caf?.txt", ["café.txt"]), ("caf[eé].*", ["café.txt"]),
        ("{{name}}/*", ["{{name}}/b.txt"]), ("{./,src/}*.txt", ["café.txt", "src/a.txt"]), ("*[ab]?t[!a]t", ["src/a.txt", "{{name}}/b.txt"]),
    ],
)  # fmt: skip
async def test_ripgrep_drops_nothing_that_matches(
    context: ToolContext, root: Path, pattern: str, names: list[str]
) -> None:
    for name in ("café.txt", "src/a.txt", "{{name}}/b.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x\n", encoding="utf-8")
    found = await call(context, "glob", pattern=pattern)
    assert sorted(found.text.split("\n")[:-1]) == names
    found = await call(context, "grep", pattern="x", glob=pattern, files_only=True)
    assert found.text.split("\n")[:-1] == names


async def test_glob_is_bounded(context: ToolContext, tree: Path) -> None:
    for number in range(30):
        (tree / f"{number}.txt").touch()
    outcome = await call(context, "glob", pattern="*.txt", limit=5)
    assert "[5 of 30 files, newest first. Narrow the pattern or path, or raise limit]" in outcome.text
    assert "[No files found]" in (await call(context, "glob", pattern="*.none")).text
    with pytest.raises(ToolError, match="must be a folder"):
        await call(context, "glob", pattern="*", path="src/app.py")


async def test_list_dir_marks_what_is_ignored_and_does_not_enter_it(context: ToolContext, tree: Path) -> None:
    os.symlink("src/app.py", tree / "link")
    (tree / "empty").mkdir()
    outcome = await call(context, "list_dir")
    assert outcome.text.splitlines() == [
        ".git/", ".gitignore  30 B", ".hidden/", "debug.log  5 B (ignored)", "empty/", "keep.log  5 B",
        "link -> src/app.py", "node_modules/ (ignored)", "src/",
    ]  # fmt: skip
    deep = await call(context, "list_dir", depth=3)
    assert "src/\n  app.js  19 B\n  app.py  42 B\n  deep/\n    util.py  23 B" in deep.text
    assert "dep/" not in deep.text and "HEAD" not in deep.text


async def test_list_dir_is_bounded(context: ToolContext, root: Path) -> None:
    crowd(root, (f"f{number:03}" for number in range(700)))
    outcome = await call(context, "list_dir")
    assert len(outcome.text.splitlines()) == 501 and "[… 200 more here;" in outcome.text
    (root / "f000").unlink()
    with pytest.raises(ToolError, match="use read_file"):
        await call(context, "list_dir", path="f001")
    (root / "sub").mkdir()
    assert (await call(context, "list_dir", path="sub")).text == "[The folder is empty]"


async def test_searches_read_their_real_path(context: ToolContext, root: Path) -> None:
    for name, arguments in (("grep", '{"pattern": "x"}'), ("glob", '{"pattern": "x"}'), ("list_dir", "{}")):
        tool, params = REGISTRY.parse(name, arguments)
        assert tool.actions(params, context) == (ReadPath(str(root), "."),)


async def test_ripgrep_is_the_one_installed_with_us(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert ripgrep._program() == str(Path(sys.executable).parent / "rg")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="not installed"):
        ripgrep._program(python=str(tmp_path / "python"))
    planted = tmp_path / "work" / "bin" / "rg"
    planted.parent.mkdir(parents=True)
    planted.write_text("#!/bin/sh\n", encoding="utf-8")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", str(planted.parent))
    with pytest.raises(ToolError, match="not installed"):
        ripgrep._program((tmp_path / "work",), str(tmp_path / "python"))
    assert ripgrep._program((tmp_path / "elsewhere",), str(tmp_path / "python")) == str(planted)


@pytest.mark.parametrize("name", [".ignore", pytest.param("sub/.gitignore", marks=pytest.mark.long)])
async def test_an_ignore_file_that_never_ends_is_named(context: ToolContext, root: Path, name: str) -> None:
    (root / ".git").mkdir()
    (root / "sub").mkdir()
    (root / "sub" / "f").write_text("x", encoding="utf-8")
    os.mkfifo(root / name)
    with pytest.raises(ToolError, match=r"ignore is not a regular file"):
        await call(context, "grep", pattern="x")


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


async def found(context: ToolContext, **arguments: object) -> set[str]:
    """The files that grep, glob and list_dir show; they must agree."""
    lists = [
        await call(context, "grep", pattern="needle", files_only=True, **arguments),
        await call(context, "glob", pattern="*", **arguments),
    ]
    grep, glob = ({line for line in each.text.splitlines() if not line.startswith("[")} for each in lists)
    assert grep == {name for name in glob if not name.rpartition("/")[2].startswith(".")}
    return grep


@pytest.mark.parametrize(
    ("ignore", "hidden"),
    [
        (".gitignore", {"a.log", "sub/b.log"}),
        (".ignore", {"a.log", "sub/b.log"}),
        (".rgignore", {"a.log", "sub/b.log"}),
        (".git/info/exclude", {"a.log", "sub/b.log"}),
        ("sub/.gitignore", {"sub/b.log"}),
    ],
)
async def test_every_kind_of_ignore_file_counts(
    context: ToolContext, root: Path, ignore: str, hidden: set[str]
) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    names = {"a.log", "keep.log", "sub/b.log", "c.txt"}
    put(root, {**dict.fromkeys(names, "needle\n"), ignore: "*.log\n!keep.log\n"})
    assert await found(context) == names - hidden
    assert "needle" in (await call(context, "read_file", path="a.log")).text
    skipped = (await call(context, "glob", pattern="*.txt")).text
    assert all(name in skipped for name in hidden)


async def test_the_users_own_excludes_count(
    context: ToolContext, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {"config/git/ignore": "*.mine\n"})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    put(root, {"a.mine": "needle\n", "b.txt": "needle\n"})
    assert await found(context) == {"b.txt"}


async def test_a_repository_within_keeps_its_own_rules(context: ToolContext, root: Path) -> None:
    for repository in (root, root / "inner"):
        repository.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
    put(root, {"a.o": "needle\n", "inner/b.o": "needle\n", "inner/c.x": "needle\n", "d.x": "needle\n"})
    put(root, {".gitignore": "*.o\n", "inner/.gitignore": "*.x\n"})
    assert await found(context) == {"d.x", "inner/b.o"}


async def test_what_the_access_list_closes_is_shown_by_no_search(context: ToolContext, root: Path) -> None:
    put(root, {"a.key": "needle\n", "open.key": "needle\n", "vault/x.txt": "needle\n", "sub/y.txt": "needle\n"})
    put(root, {"sub/z.txt": "needle\n", ".agentignore": "*.key\n!open.key\nvault/\n", "sub/.agentignore": "z*\n"})
    put(root, {".gitignore": "!a.key\n*.tmp\n", "t.tmp": "", "vault/t.tmp": ""})
    assert await found(context) == {"open.key", "sub/y.txt"}
    assert await found(context, path="vault") == set()
    for depth in (1, 3):
        listed = (await call(context, "list_dir", depth=depth)).text
        assert "a.key" not in listed and "vault" not in listed and "z.txt" not in listed and "open.key" in listed
    whole = await call(context, "grep", pattern="needle")
    assert "vault" not in whole.text and "a.key" not in whole.text and "z.txt" not in whole.text
    assert "t.tmp" in whole.text and "kept back by permission rules or .agentignore]" in whole.text
    put(root, {".agentignore": "nothing\n"})
    (root / "sub" / ".agentignore").unlink()
    assert "vault/x.txt" in await found(context)


async def test_matches_come_in_the_order_of_their_paths(context: ToolContext, root: Path) -> None:
    put(root, {f"d{n % 7}/f{n:02}.txt": "needle\n" for n in range(60)})
    names = [line for line in (await call(context, "grep", pattern="needle")).text.splitlines() if line[0] == "d"]
    assert len(names) == 60 and names == sorted(names)
    files = await call(context, "grep", pattern="needle", files_only=True)
    assert files.text.splitlines()[:60] == names


async def test_a_flood_of_matches_is_cut_and_said(context: ToolContext, root: Path) -> None:
    put(root, {f"f{n}.txt": ("needle" + "y" * 400 + "\n") * 400 for n in range(80)})
    outcome = await call(context, "grep", pattern="needle", limit=1000)
    assert "there are more" in outcome.text and len(outcome.text) < 34_000


async def test_thousands_of_ignored_files_are_passed_over(context: ToolContext, root: Path) -> None:
    (root / "out").mkdir()
    crowd(root / "out", (f"{number}.o" for number in range(1500)))
    put(root, {".gitignore": "*.o\n", "a.c": "needle\n"})
    outcome = await call(context, "grep", pattern="needle")
    assert "a.c\n1: needle" in outcome.text and "gnore" in outcome.text  # their number, if there was time for it


async def test_a_folder_that_cannot_be_read_is_named(context: ToolContext, root: Path) -> None:
    put(root, {"closed/f": "needle\n", "a": "other\n"})
    (root / "closed").chmod(0)
    try:
        outcome = await call(context, "grep", pattern="needle")
    finally:
        (root / "closed").chmod(0o755)
    assert "could not be read" in outcome.text or os.geteuid() == 0


@pytest.mark.parametrize("pattern", ["../*", "src/../../*.py", ".."])
async def test_a_pattern_that_leaves_the_folder_is_told(context: ToolContext, tree: Path, pattern: str) -> None:
    with pytest.raises(ToolError, match="leaves the folder searched"):
        await call(context, "glob", pattern=pattern)
    with pytest.raises(ToolError, match="leaves the folder searched"):
        await call(context, "grep", pattern="main", glob=pattern)


async def test_a_pattern_for_another_folder_is_told_where_patterns_begin(context: ToolContext, tree: Path) -> None:
    text = (await call(context, "glob", pattern="/etc/*")).text
    assert "[No files found]" in text and f"Patterns begin at {tree}" in text
    assert "Patterns begin" not in (await call(context, "glob", pattern="/src/*.py")).text
    assert "src/app.py" in (await call(context, "grep", pattern="main", glob=f"{tree}/src/*.py")).text


async def test_one_of_a_kind_is_told_in_the_singular(context: ToolContext, tree: Path) -> None:
    (tree / "debug.log").unlink()
    note = "[1 ignored file or folder skipped: node_modules]"
    outcome = await call(context, "glob", pattern="app.py")
    assert outcome.text == f"src/app.py\n[1 file, newest first]\n{note}" and outcome.display == "1 file"
    outcome = await call(context, "grep", pattern="helper", files_only=True)
    assert outcome.text == f"src/deep/util.py\n[1 file with matches]\n{note}"


async def test_a_match_in_an_endless_line_does_not_disappear(context: ToolContext, root: Path) -> None:
    (root / "bundle.js").write_text("needle " * 1_400_000, encoding="utf-8")
    text = (await call(context, "grep", pattern="needle")).text
    assert "[A matching line of bundle.js is too long to be shown]" in text


async def test_no_match_of_letters_outside_ascii_says_what_was_not_searched(
    context: ToolContext, root: Path
) -> None:
    (root / "old.txt").write_bytes("café".encode("latin-1"))
    for files_only in (True, False):
        outcome = await call(context, "grep", pattern="café", files_only=files_only)
        assert "other encodings than UTF-8" in outcome.text
    (root / "new.txt").write_text("café", encoding="utf-8")
    assert "encodings" not in (await call(context, "grep", pattern="café")).text
    assert "encodings" not in (await call(context, "grep", pattern="none")).text
