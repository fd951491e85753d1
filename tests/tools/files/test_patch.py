"""apply_patch: both common forms, several files, all or nothing."""

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.protocol.actions import ReadPath, WritePath
from agent_cli.protocol.messages import FileChange
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.files.patch import ApplyPatch, PatchParams
from agent_cli.tools.kit.base import ToolContext, ToolError, ToolOutcome
from agent_cli.tools.new_context import new_context
from agent_cli.workspace.files.reader import content_hash
from agent_cli.workspace.paths import Workspace
from tests.fuzz import tries
from tests.tools.calls import call

TOOL = ApplyPatch()


async def apply(context: ToolContext, patch: str) -> ToolOutcome:
    params = PatchParams(patch)
    TOOL.title(params)
    TOOL.actions(params, context)
    shown = await TOOL.preview(params, context)
    outcome = await TOOL.run(params, context)
    assert shown.text == (outcome.display or "No change.")
    context.seen.update(outcome.seen)
    return outcome


async def refused(context: ToolContext, patch: str) -> str:
    before = state(context.workspace.root)
    with pytest.raises(ToolError) as caught:
        await apply(context, patch)
    assert state(context.workspace.root) == before
    return str(caught.value)


def state(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def envelope(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"]) + "\n"


async def test_lines_behind_a_last_line_without_its_end_stay_lines(context: ToolContext, root: Path) -> None:
    for number, shown in enumerate((" b", " b  ")):
        (root / f"{number}").write_bytes(b"a \nb")
        await apply(context, envelope(f"*** Update File: {number}", "@@", " a", shown, "+c"))
        assert (root / f"{number}").read_bytes() == b"a \nb\nc"


async def test_several_files_are_changed_at_once(context: ToolContext, root: Path) -> None:
    (root / "a.py").write_bytes(b"def one():\n    return 1\n\ndef two():\n    return 1\n")
    (root / "old.txt").write_bytes(b"gone\n")
    (root / "moved.sh").write_bytes(b"#!/bin/sh\necho a\r\n")
    os.chmod(root / "moved.sh", 0o755)
    await call(context, "read_file", path="old.txt")
    patch = envelope(
        "*** Update File: a.py", "@@ def two():", "-    return 1", "+    return 2",
        "*** Add File: new/b.txt", "+x", "+", "+y",
        "*** Delete File: old.txt",
        "*** Update File: moved.sh", "*** Move to: bin/run.sh", "@@", " #!/bin/sh", "-echo a", "+echo b",
    )  # fmt: skip
    outcome = await apply(context, patch)
    assert state(root) == {
        "a.py": b"def one():\n    return 1\n\ndef two():\n    return 2\n",
        "new/b.txt": b"x\n\ny\n",
        "bin/run.sh": b"#!/bin/sh\necho b\r\n",
    }
    assert stat.S_IMODE(os.stat(root / "bin/run.sh").st_mode) == 0o755
    assert outcome.changes == (
        FileChange("a.py", "modified", 1, 1),
        FileChange("new/b.txt", "created", 3, 0),
        FileChange("old.txt", "deleted", 0, 1),
        FileChange("bin/run.sh", "created", 2, 0),
        FileChange("moved.sh", "deleted", 0, 2),
    )
    assert "--- a/old.txt\n+++ /dev/null\n" in outcome.display and "+++ b/new/b.txt" in outcome.display
    assert outcome.seen[str(root / "new/b.txt")] == content_hash(b"x\n\ny\n")
    assert str(root / "a.py") not in outcome.seen, "the rest of it was never read"


async def test_every_path_is_declared(context: ToolContext, root: Path) -> None:
    patch = envelope("*** Update File: a", "*** Move to: b", "@@", "-x", "+y", "*** Delete File: c")
    assert TOOL.actions(PatchParams(patch), context) == (
        *(WritePath(str(root / name), name) for name in "abc"),
        *(ReadPath(str(root / name), name) for name in "ac"),
    )


async def test_a_failing_file_leaves_the_others_alone(context: ToolContext, root: Path) -> None:
    (root / "a").write_bytes(b"1\n2\n")
    (root / "b").write_bytes(b"1\n2\n")
    said = await refused(
        context, envelope("*** Update File: a", "@@", "-1", "+x", "*** Update File: b", "@@", " 1", "-3", "+x")
    )
    assert said.startswith(
        "the hunk at line 7 of the patch: its old text does not occur in b. Nothing was changed."
    )


async def test_a_later_write_that_fails_is_rolled_back(context: ToolContext, root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    (root / "gone").write_bytes(b"1\n")
    (root / "locked").mkdir()
    (root / "locked" / "b").write_bytes(b"1\n")
    os.chmod(root / "locked" / "b", 0o444)
    await call(context, "read_file", path="gone")
    steps = ["*** Update File: a", "@@", "-1", "+2", "*** Add File: c", "+c", "*** Delete File: gone"]
    patch = envelope(*steps, "*** Add File: a/impossible", "+x")
    said = await refused(context, patch)
    assert "Nothing was changed" in said
    steps = [*steps, "*** Add File: new/deep/d", "+d"]
    patch = envelope(*steps, "*** Update File: locked/b", "@@", "-1", "+2")
    assert "write-protected. Nothing was changed." in await refused(context, patch)
    assert not (root / "new").exists(), "folders that were made for it are gone too"


async def test_crlf_mixed_indentation_and_quotes_are_met_as_in_edits(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes("if a:\r\n\tsay(“x”)  \r\n\tgo()\r\n".encode())
    outcome = await apply(
        context, envelope("*** Update File: f", "@@", " if a:", '     say("x")', "-    go()", "+    stop()")
    )
    assert (root / "f").read_bytes() == "if a:\r\n\tsay(“x”)  \r\n\tstop()\r\n".encode()
    assert "matched but for indentation and typography" in outcome.text


async def test_a_hunk_found_only_nearly_shows_what_came_of_it(context: ToolContext, root: Path) -> None:
    text = "# all that the reader needs to know of this is here\nfirst = 1\nsecond = 2\nthird = 3\n"
    (root / "f").write_text(text, encoding="utf-8")
    lines = [f" {line}" for line in text.replace("needs", "wants").split("\n")[:3]]
    outcome = await apply(context, envelope("*** Update File: f", "@@", *lines, "-third = 3", "+third = 4"))
    assert "matched nearly (line 1). Result:\n@@ -1,4 +1,4 @@" in outcome.text
    assert (root / "f").read_text(encoding="utf-8") == text.replace("third = 3", "third = 4")


async def test_repeated_context_needs_an_anchor(context: ToolContext, root: Path) -> None:
    text = "def a():\n    x = 1\n    return x\n\ndef b():\n    x = 1\n    return x\n"
    (root / "f").write_text(text, encoding="utf-8")
    body = ["     x = 1", "-    return x", "+    return 2"]
    said = await refused(context, envelope("*** Update File: f", "@@", *body))
    assert "at lines 2, 6" in said and "`@@` line" in said
    assert "no line 'def c():'" in await refused(context, envelope("*** Update File: f", "@@ def c():", *body))
    await apply(context, envelope("*** Update File: f", "@@ def b():", *body))
    assert (root / "f").read_text(encoding="utf-8") == text.removesuffix("    return x\n") + "    return 2\n"
    said = await refused(
        context, envelope("*** Update File: f", "@@ def b():", "     x = 1", "-    return x", "+    y")
    )
    assert "is not below the line its `@@` names" in said


async def test_an_anchor_does_not_reach_past_the_next_of_its_kind(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("def a():\n    x = 3\n\ndef b():\n    x = 1\n", encoding="utf-8")
    said = await refused(context, envelope("*** Update File: f", "@@ def a():", "-    x = 1", "+    x = 2"))
    assert "only roughly" in said


async def test_two_headers_for_one_file_are_taken_together(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\nb\n")
    await apply(
        context, envelope("*** Update File: f", "@@", "-a", "+A", "*** Update File: f", "@@", " A", "-b", "+B")
    )
    assert (root / "f").read_bytes() == b"A\nB\n"


async def test_the_end_of_the_file_settles_where(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"}\n}\n")
    await apply(context, envelope("*** Update File: f", "@@", " }", "+end", "*** End of File"))
    assert (root / "f").read_bytes() == b"}\n}\nend\n"


UNIFIED = """\
--- a/f
+++ b/f
@@ -{at} @@
 a
-b
+B
 c
"""


@pytest.mark.parametrize("at", ["1,3 +1,3", "2,3 +2,3", "1,30 +1,2", "1 +1", "900,3 +900,3"])
async def test_wrong_numbers_in_unified_diffs_do_no_harm(context: ToolContext, root: Path, at: str) -> None:
    (root / "f").write_bytes(b"a\nb\nc\nd\n")
    await apply(context, UNIFIED.format(at=at))
    assert (root / "f").read_bytes() == b"a\nB\nc\nd\n"


async def test_the_stated_line_settles_where_if_it_is_clear(context: ToolContext, root: Path) -> None:
    text = b"a\nb\nc\n" + b"-\n" * 20
    (root / "f").write_bytes(text * 2)
    await apply(context, UNIFIED.format(at="25,3 +25,3"))
    assert (root / "f").read_bytes() == text + text.replace(b"b", b"B")
    (root / "f").write_bytes(text * 2)
    assert "several times" in await refused(context, UNIFIED.format(at="12,3 +12,3"))


async def test_git_headers_create_delete_and_rename(context: ToolContext, root: Path) -> None:
    (root / "gone").write_bytes(b"x\n")
    (root / "from me").write_bytes(b"a\nb\n")
    patch = (
        "diff --git a/new b/new\nnew file mode 100644\nindex 0000000..1\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n"
        "+n\n+m\n\\ No newline at end of file\ndiff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n"
        "+++ /dev/null\n@@ -1 +0,0 @@\n-x\ndiff --git a/from me b/to\nsimilarity index 90%\nrename from from me\n"
        "rename to to\n--- a/from me\n+++ b/to\n@@ -1,2 +1,2 @@\n a\n-b\n+c\ndiff --git a/empty b/empty\n"
        "new file mode 100644\nindex 0000000..e69de29\n"
    )
    await apply(context, patch)
    assert state(root) == {"new": b"n\nm", "to": b"a\nc\n", "empty": b""}


async def test_a_folder_called_a_is_not_taken_off(context: ToolContext, root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "f").write_bytes(b"a\nb\nc\n")
    await apply(context, UNIFIED.format(at="1,3 +1,3"))
    assert (root / "a" / "f").read_bytes() == b"a\nB\nc\n"


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        (b"a\nb", b"a\nc", "-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"),
        (b"a\nb", b"a\nb\n", "-b\n\\ No newline at end of file\n+b\n"),
        (b"a\nb\n", b"a\nb", "-b\n+b\n\\ No newline at end of file\n"),
        (b"a\r\nb\r\n", b"a\r\nc\r\n", "-b\r\n+c\r\n"),
    ],
)
async def test_the_end_of_the_last_line(
    context: ToolContext, root: Path, old: bytes, new: bytes, patch: str
) -> None:
    (root / "f").write_bytes(old)
    await apply(context, f"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n{patch}")
    assert (root / "f").read_bytes() == new


@pytest.mark.parametrize(
    "patch",
    [
        "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\r\n+b\r\n",
        "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\r\n+b\r\n",
        "*** Begin Patch\n*** Add File: f\n+a\r\n+b\r\n*** End Patch\n",
    ],
)
async def test_line_ends_of_a_new_file_are_those_of_its_lines_unless_the_whole_patch_has_them(
    context: ToolContext, root: Path, patch: str
) -> None:
    await apply(context, patch)
    assert (root / "f").read_bytes() == b"a\r\nb\r\n"
    (root / "f").unlink()
    await apply(context, patch.replace("\r\n", "\n").replace("\n", "\r\n"))
    assert (root / "f").read_bytes() == b"a\nb\n"


async def test_a_mode_alone_changes_where_names_have_no_prefix(context: ToolContext, root: Path) -> None:
    (root / "b c").write_bytes(b"x\n")
    await apply(context, "diff --git b c b c\nold mode 100644\nnew mode 100755\n")
    assert (root / "b c").stat().st_mode & 0o100


async def test_senseless_patches_are_refused(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n")
    await call(context, "read_file", path="f")
    assert "exists already" in await refused(context, envelope("*** Add File: f", "+x"))
    twice = envelope("*** Update File: f", "@@", "-a", "+b", "*** Delete File: f")
    assert "changes f twice (line 6)" in await refused(context, twice)
    assert "does not exist" in await refused(context, envelope("*** Update File: g", "@@", "-a", "+b"))
    assert "does not exist" in await refused(context, envelope("*** Delete File: g"))
    assert "as it is" in await refused(context, envelope("*** Update File: f", "@@", " a"))
    assert "left out" in await refused(
        context, envelope("*** Update File: f", "@@", "-a", "+# ... rest of the code")
    )
    patch = "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
    assert "does not occur" in await refused(context, patch)


async def test_a_patch_made_before_says_so(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"first line\nsecond line\n")
    patch = envelope("*** Update File: f", "@@", " first line", "-second thing", "+second line")
    outcome = await apply(context, patch)
    assert "already applied" in outcome.text and not outcome.changes


async def test_a_link_is_deleted_and_not_what_it_leads_to(context: ToolContext, root: Path) -> None:
    (root / "AGENTS.md").write_bytes(b"real\n")
    os.symlink("AGENTS.md", root / "CLAUDE.md")
    patch = PatchParams(envelope("*** Delete File: CLAUDE.md"))
    assert WritePath(str(root / "CLAUDE.md"), "CLAUDE.md") in TOOL.actions(patch, context)
    said = await refused(context, envelope("*** Update File: CLAUDE.md", "*** Move to: B.md"))
    assert "symbolic link to AGENTS.md" in said
    outcome = await apply(context, patch.patch)
    assert outcome.changes == (FileChange("CLAUDE.md", "deleted", 0, 1),)
    assert os.listdir(root) == ["AGENTS.md"] and (root / "AGENTS.md").read_bytes() == b"real\n"


async def test_a_deleted_link_is_put_back_when_a_later_write_fails(context: ToolContext, root: Path) -> None:
    os.symlink("nowhere", root / "link")
    (root / "f").write_bytes(b"1\n")
    os.chmod(root / "f", 0o444)
    await refused(context, envelope("*** Delete File: link", "*** Update File: f", "@@", "-1", "+2"))
    assert os.readlink(root / "link") == "nowhere"


async def test_a_broken_link_is_named_with_what_it_leads_to(context: ToolContext, root: Path) -> None:
    os.symlink("nowhere", root / "link")
    said = await refused(context, envelope("*** Update File: link", "@@", "-1", "+2"))
    assert f"link is a broken symbolic link: {root}/nowhere does not exist" in said
    assert os.readlink(root / "link") == "nowhere"


async def test_fences_among_the_context_end_nothing(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"intro\nold\n```bash\nmake\n```\nend\n")
    body = " intro\n-old\n+new\n ```bash\n-make\n+make all\n ```\n end\n"
    await apply(context, f"```diff\n--- a/f\n+++ b/f\n@@ -1,6 +1,6 @@\n{body}```\n")
    assert (root / "f").read_bytes() == b"intro\nnew\n```bash\nmake all\n```\nend\n"


_HUNK = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n"


@pytest.mark.parametrize("behind", ["\nThat is all.\n", "```\n", "-- \n2.43.0\n\n"])
async def test_words_around_a_patch_do_no_harm(context: ToolContext, root: Path, behind: str) -> None:
    for patch in (_HUNK, envelope("*** Update File: f", "@@", "-a", "+A")):
        (root / "f").write_bytes(b"a\nb\n")
        await apply(context, f"Here it is:\n\n{patch}{behind}")
        assert (root / "f").read_bytes() == b"A\nb\n"


async def test_every_envelope_is_read(context: ToolContext, root: Path) -> None:
    for name in "fg":
        (root / name).write_bytes(b"a\n")
    patches = [envelope(f"*** Update File: {name}", "@@", "-a", "+b") for name in "fg"]
    await apply(context, "\nand\n".join(patches))
    assert state(root) == {"f": b"b\n", "g": b"b\n"}


async def test_what_git_can_say_and_a_patch_cannot_do_is_refused(context: ToolContext, root: Path) -> None:
    (root / "x").write_bytes(b"a\nb\n")
    copy = (
        "diff --git a/x b/y\nsimilarity index 80%\ncopy from x\ncopy to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+A\n"
    )
    assert "a copy cannot be applied" in await refused(context, copy)
    link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n"
    assert "links and submodules" in await refused(context, link)


async def test_an_empty_new_file_is_a_creation(context: ToolContext, root: Path) -> None:
    outcome = await apply(context, envelope("*** Add File: pkg/__init__.py"))
    assert outcome.changes == (FileChange("pkg/__init__.py", "created", 0, 0),)
    assert (
        outcome.text == "Created pkg/__init__.py: 0 lines added, 0 removed."
        and state(root)["pkg/__init__.py"] == b""
    )


async def test_a_delete_without_its_lines_needs_a_read_of_the_present_content(
    context: ToolContext, root: Path
) -> None:
    (root / "f").write_bytes(b"a\n")
    patch = envelope("*** Delete File: f")
    assert "you have not read it" in await refused(context, patch)
    await call(context, "read_file", path="f")
    (root / "f").write_bytes(b"the work of others\n")
    assert "it has changed since you read it" in await refused(context, patch)
    await call(context, "read_file", path="f")
    await apply(context, patch)
    assert state(root) == {}


async def test_modes_git_names_are_set(context: ToolContext, root: Path) -> None:
    (root / "old").write_bytes(b"a\n")
    (root / "both").write_bytes(b"a\n")
    os.chmod(root / "both", 0o640)
    patch = (
        "diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"
        "diff --git a/old b/old\nold mode 100644\nnew mode 100755\n"
        "diff --git a/both b/both\nold mode 100644\nnew mode 100755\n--- a/both\n+++ b/both\n@@ -1 +1 @@\n-a\n+b\n"
    )
    outcome = await apply(context, patch)
    modes = [stat.S_IMODE(os.stat(root / name).st_mode) for name in ("new", "old", "both")]
    assert [mode & 0o111 for mode in modes] == [0o111, 0o111, 0o110] and modes[2] == 0o750
    assert (root / "both").read_bytes() == b"b\n"
    assert "old mode 100644\nnew mode 100755\n" in outcome.display and "It is now executable." in outcome.text
    assert [change.path for change in outcome.changes] == ["new", "old", "both"]


async def test_an_empty_file_in_a_folder_called_b_is_named_by_a_patch_without_prefixes(
    context: ToolContext, root: Path
) -> None:
    sources = root.parent / "sources"
    (sources / "b").mkdir(parents=True)
    (sources / "b" / "old").write_bytes(b"")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@e", "-C", str(sources)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"], ["mv", "b/old", "b/x"]):
        subprocess.run([*git, *words], check=True)
    diff = subprocess.run(
        [*git, "diff", "--cached", "--no-prefix", "--no-renames"], check=True, capture_output=True, text=True
    ).stdout
    (root / "b").mkdir()
    (root / "b" / "old").write_bytes(b"")
    await call(context, "read_file", path="b/old")
    await apply(context, diff)
    assert state(root).keys() == {"b/x"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
async def test_a_moved_file_keeps_its_owner_and_attributes(context: ToolContext, root: Path) -> None:
    (root / "f").write_bytes(b"a\n")
    os.chown(root / "f", 1234, 4321)
    await apply(context, envelope("*** Update File: f", "*** Move to: g", "@@", "-a", "+b"))
    status = os.stat(root / "g")
    assert (status.st_uid, status.st_gid) == (1234, 4321) and (root / "g").read_bytes() == b"b\n"


_LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "\te"]), max_size=12)


@settings(max_examples=tries(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_LINES, _LINES, st.sampled_from(["\n", ""]), st.sampled_from(["\n", ""]))
async def test_what_git_writes_is_applied_or_refused(
    tmp_path: Path, old: list[str], new: list[str], old_end: str, new_end: str
) -> None:
    work = tmp_path / "w"
    work.mkdir(exist_ok=True)
    before, after = ("\n".join(lines) + end if lines else "" for lines, end in ((old, old_end), (new, new_end)))
    (tmp_path / "old").write_text(before, encoding="utf-8")
    (tmp_path / "new").write_text(after, encoding="utf-8")
    (work / "f").write_text(before, encoding="utf-8")
    diff = subprocess.run(
        ["git", "diff", "--no-index", "--no-color", "old", "new"], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    diff = diff.replace("a/old", "a/f").replace("b/new", "b/f")
    context = new_context(Workspace(work), ProcessRunner(), tmp_path)
    if diff:
        await apply(context, diff)
        assert (work / "f").read_text(encoding="utf-8") == after


def test_the_parameters_are_one_string() -> None:
    value: Any = msgspec.json.decode(b'{"patch": "x"}', type=PatchParams)
    assert value == PatchParams("x")
