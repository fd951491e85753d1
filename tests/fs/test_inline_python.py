"""Python that would search the workspace for its own library is recognized."""

from pathlib import Path

import pytest

from agent_cli.fs.inline_python import safe_path


@pytest.mark.parametrize(
    ("words", "is_inline"),
    [
        (("python3 -c 'import json'",), True),
        (("python3", "-c", "import json"), True),
        (("jq . | /usr/bin/python3.11 -",), True),
        (("python3 -I -Bc 'import json'",), True),
        (("cat x | python3; true",), True),
        (("python3 <<EOF\nimport json\nEOF",), True),
        (('bash -c "cd / && python3 -W error -c 1"',), True),
        (("env", "python3", "-m", "json.tool"), True),
        (("python3 -mjson.tool",), True),
        (("python3 -m checks.run",), False),
        (("python3 -B /home/me/guard.py --fast -c x",), False),
        (("python3", "guard.py"), False),
        (("./guard.sh -c x",), False),
        (("node -e 1",), False),
        (("ruff check",), False),
    ],
)
def test_what_runs_without_a_script_of_its_own(tmp_path: Path, words: tuple[str, ...], is_inline: bool) -> None:
    (tmp_path / "checks").mkdir()
    assert bool(safe_path(words, tmp_path)) == is_inline
