"""What is no patch, or not wholly one, is refused with the line at which that shows."""

import pytest

from agent_cli.tools.files.patch_format import parse
from agent_cli.tools.kit.base import ToolError
from tests.rows import each_row


@each_row(
    ("patch", "said"),
    [
        ("", "names no file"),
        ("please change f", "names no file"),
        ("*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n", "line 6: the patch ends, expected"),
        ("*** Begin Patch\n*** Update File: f\n@@\n-a\n+b", "line 6: the patch ends, expected"),
        ("*** Begin Patch\n*** Change File: f\n*** End Patch", "line 2: there is '*** Change File: f', expected"),
        ("*** Begin Patch\n*** Update File: f\n*** End Patch", "expected changes for f"),
        (
            "*** Begin Patch\n*** Update File: f\n@@\nx = 1\n*** End Patch",
            "line 4: there is 'x = 1', expected a line",
        ),
        (
            "*** Begin Patch\n*** Add File: f\nx\n*** End Patch",
            "expected a line of the new file, with + before it",
        ),
        ("*** Begin Patch\n*** Delete File:\n*** End Patch", "Line 2 of the patch names no path"),
        ("@@ -1 +1 @@\n-a\n+b\n", "expected `--- a/PATH` and `+++ b/PATH` before the first `@@`"),
        ("--- a/f\n+++ b/f\n", "expected `@@ -LINE,COUNT +LINE,COUNT @@`"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n", "expected the lines of the change"),
        ("diff --git a/f b/f\nGIT binary patch\n", "a binary change cannot be applied"),
    ],
)
def test_what_is_no_patch_is_told_by_line(patch: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse(patch)
    assert said in str(caught.value)


_HUNK = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n"
_ENVELOPE = "*** Begin Patch\n*** Update File: g\n@@\n-a\n+A\n*** End Patch\n"


@each_row(
    "patch",
    [
        _ENVELOPE + "--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        _HUNK + _ENVELOPE,
        _ENVELOPE + "*** Update File: g\n-a\n+b\n",
        f"{_HUNK}...\n c\n-d\n+D\n",
        f"{_HUNK}and then\n-d\n+D\n",
        f"{_HUNK}Index: g\n===\n*** g\n-a\n+b\n",
    ],
)
def test_lines_that_belong_to_no_change_are_refused(patch: str) -> None:
    with pytest.raises(ToolError, match="The patch cannot be read at line"):
        parse(patch)
