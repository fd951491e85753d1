"""Named characters are as they were, and loaded with the first."""

import subprocess
import sys

SCRIPT = """
import sys
from agent_cli.ui.markdown.entities import defer_entities
defer_entities()
from agent_cli.ui.markdown.blocks import StyledBlocks
from agent_cli.ui.text.theme import NONE
for text in ("a plain *text*", "Q&A", "&copy; &amp; &NotAName; &hearts;x `&copy;`"):
    print(*StyledBlocks(NONE).block(text, 60, None), "html.entities" in sys.modules)
"""


def test_the_table_of_names_is_loaded_when_a_text_has_one() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=90, check=True)
    assert done.stdout.split("\n")[:-1] == ["a plain text False", "Q&A False", "© & &NotAName; ♥x `&copy;` True"]
