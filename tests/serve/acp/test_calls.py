"""Tool calls as clients show them."""

import msgspec
import pytest

from agent_cli.protocol.events import ApprovalItem, ToolCallFinished
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.sanitize import marked_data
from agent_cli.serve.acp import calls
from agent_cli.ui.text.lines import cells
from agent_cli.workspace.editing.unified_diff import unified_diff


def test_each_hunk_of_each_file_is_a_change() -> None:
    before = "".join(f"{number}\n" for number in range(40))
    after = before.replace("3\n", "three\n", 1).replace("35\n", "-- a\n++ b\n")
    text = unified_diff(before, after, "a/x.txt").text + unified_diff("", "new\n", "b.txt", created=True).text
    text += unified_diff("old\n", "", "c.txt").text.replace("+++ b/c.txt", "+++ /dev/null")
    found = calls.diff_content(text, "/work")
    assert [each["path"] for each in found] == ["/work/a/x.txt", "/work/a/x.txt", "/work/b.txt", "/work/c.txt"]
    assert (found[0]["oldText"], found[0]["newText"]) == ("0\n1\n2\n3\n4\n5\n6", "0\n1\n2\nthree\n4\n5\n6")
    assert "-- a\n++ b" in found[1]["newText"] and "\n35\n" in found[1]["oldText"]
    assert (found[2]["oldText"], found[2]["newText"]) == (None, "new")
    assert (found[3]["oldText"], found[3]["newText"]) == ("old", "")


def test_a_change_that_is_cut_off_says_so_and_takes_no_lines_of_the_next_file() -> None:
    many = "".join(f"{number}\n" for number in range(3000))
    text = unified_diff("one\n", many, "a.txt").text + unified_diff("two\n", "TWO\n", "b.txt").text
    first, second, rest = calls.diff_content(text, "/work")
    assert (first["path"], first["oldText"]) == ("/work/a.txt", "one")
    assert first["newText"].startswith("0\n1\n") and "b.txt" not in first["newText"]
    assert (second["path"], second["oldText"], second["newText"]) == ("/work/b.txt", "two", "TWO")
    assert "/work/a.txt: … more, not shown; in all 3000 lines added" in rest["content"]["text"]


def test_what_has_no_lines_is_part_of_what_is_approved() -> None:
    mode = "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
    empty = "--- a/gone.txt\n+++ /dev/null\n--- /dev/null\n+++ b/new.txt\n"
    edit = unified_diff("x\n", "y\n", "run.sh").text
    item = ApprovalItem(
        call_id="1", tool="apply_patch", title="run.sh", arguments="{}", preview=mode + edit + empty,
        preview_kind="diff", reason="it changes run.sh", rule="mode ask", grant="", editable="",
    )  # fmt: skip
    shown, rest, _why = calls.approval_content(item, "/work")
    assert (shown["path"], shown["newText"]) == ("/work/run.sh", "y")
    text = rest["content"]["text"]
    assert "old mode 100644\nnew mode 100755" in text
    assert "--- a/gone.txt\n+++ /dev/null" in text and "--- /dev/null\n+++ b/new.txt" in text


def approval(command: str) -> ApprovalItem:
    return ApprovalItem(
        call_id="1", tool="shell", title=command, arguments="{}", preview=command, preview_kind="command",
        reason="it changes __init__.py", rule="mode ask", grant="", editable="command", label="$", folder="src",
        reach="outside", rewrite="-python3\n+rm", output="x\nRead-only file system",
    )  # fmt: skip


def test_a_command_to_approve_is_shown_as_it_is() -> None:
    command = "echo __x__ <!-- ; rm -r *a*\n# --> ```\n\x1b[2K"
    shown, why = calls.approval_content(approval(command), "/work")
    assert shown["content"]["text"] == "````\necho __x__ <!-- ; rm -r *a*\n# --> ```\n^[[2K\n````"
    reason = "Asked because: it changes __init__.py (mode ask)\nIt runs in src, outside the sandbox"
    more = "A hook changed it:\n-python3\n+rm\nIts output ended with:\n    x\n    Read-only file system"
    assert why["content"]["text"] == f"```\n{reason}\n{more}\n```"


@pytest.mark.parametrize("unit", ["x", "一", "word ", "\u3000; rm x", "."])
def test_no_row_of_an_approval_is_so_long_that_a_client_cuts_it_off(unit: str) -> None:
    command = "one\n" + unit * 300
    text = calls.approval_content(approval(command), "/work")[0]["content"]["text"]
    assert text.replace("\n↪ ", "") == f"```\n{command}\n```"
    assert all(cells(row) <= 80 for row in text.split("\n"))


def test_a_command_that_prints_a_diff_shows_its_output() -> None:
    diff = unified_diff("a\n", "b\n", "x").text
    ran = ToolCallFinished(
        call_id="1", tool="shell", title="git diff", status="ok", text=f"2 files\n{diff}", display="",
        result_kind="output", changes=(FileChange("y", "modified", 1, 1),),
    )  # fmt: skip
    for event in (ran, msgspec.structs.replace(ran, display=ran.text)):
        (shown,) = calls.finished_content(event, "/work")
        assert shown["content"]["text"].startswith("```\n2 files\n--- a/x")


def test_output_is_shown_as_it_is_and_long_output_by_its_end() -> None:
    (shown,) = calls.output_content("a ```` b\n\x1b[31mred\x1b[0m\n")
    assert shown["content"]["text"] == "`````\na ```` b\nred\n`````"
    (long,) = calls.output_content("x" * 100_000 + "end")
    assert len(long["content"]["text"]) < 21_000 and long["content"]["text"].endswith("end\n```")
    assert calls.output_content("\n") == []


def test_a_call_that_failed_says_why_and_one_that_changed_files_what() -> None:
    denied = ToolCallFinished(call_id="1", tool="shell", title="x", status="denied", text="Denied by a rule.")
    assert "Denied by a rule." in str(calls.finished_content(denied, "/work"))
    diff = unified_diff("a\n", "b\n", "x").text
    change = FileChange("x", "modified", 1, 1)
    made = ToolCallFinished(
        call_id="1", tool="edit_file", title="x", status="ok", text="", display=diff, changes=(change,)
    )
    assert [each["type"] for each in calls.finished_content(made, "/work")] == ["diff"]
    assert calls.finished_locations(made, "/work") == [{"path": "/work/x"}]


def test_data_is_shown_without_the_marks_that_are_for_the_model() -> None:
    text = marked_data("ticket seven", "the MCP server board", "a1b2c3d4e5f6")
    for kind in ("text", "summary", "output"):
        for status in ("ok", "failed"):
            event = ToolCallFinished(
                call_id="1", tool="board_read", title="7", status=status, text=text, result_kind=kind
            )  # fmt: skip
            (shown,) = calls.finished_content(event, "/work")
            assert shown["content"]["text"].strip("`\n") == "ticket seven"
            assert calls.raw_output(event)["text"] == text


def test_titles_name_the_tool_but_for_commands() -> None:
    def title(tool: str, label: str, title: str = "a\nb") -> str:
        event = ToolCallFinished(call_id="1", tool=tool, title=title, status="ok", text="", label=label)
        return calls.title_of(event)

    assert title("shell", "$") == "a b" and title("read_file", "Read") == "Read a b"
    assert title("mcp__x__y", "") == "mcp__x__y a b"
    assert title("mcp__x__y", "", "mcp__x__y") == "mcp__x__y"


def test_an_editor_follows_files_that_are_read_or_changed() -> None:
    assert calls.locations_of("read_file", {"path": "a/../b.py", "offset": 7}, "/w") == [
        {"path": "/w/b.py", "line": 7}
    ]
    assert calls.locations_of("edit_file", {"path": "/x.py"}, "/w") == [{"path": "/x.py"}]
    for arguments in ({"path": ""}, {"path": 1}, {}, "text", None):
        assert calls.locations_of("read_file", arguments, "/w") == []
    assert calls.locations_of("shell", {"path": "x"}, "/w") == []
