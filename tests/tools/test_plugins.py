"""Tools that others write."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.protocol.actions import CallExternal, ReadPath
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.plugins import Extension, ExtensionError, installed, of_project
from agent_cli.tools.registry import default_registry
from tests.rows import each_row

GOOD = b'''
import msgspec
from agent_cli.tools.kit.base import ToolOutcome

class Params(msgspec.Struct):
    word: str
    times: int = 1

class Shout:
    """Shouts a word."""
    name = "shout"
    Params = Params
    async def run(self, params, context):
        return ToolOutcome(text=params.word.upper() * params.times)

class Plain:
    """Says where it works."""
    name = "where"
    Params = type("Nothing", (msgspec.Struct,), {})
    def run(self, params, context):
        return context.workspace.root

TOOLS = [Shout, Plain()]
'''


async def test_a_projects_tools_work_like_ours_and_always_ask(context: ToolContext) -> None:
    tools, problems = of_project({".agent/tools/loud.py": GOOD}, set())
    assert not problems
    registry = default_registry(extra=tools)
    assert registry.names[-2:] == ("shout", "where")
    declared = registry.specs()[-2]
    assert declared.description == "Shouts a word." and declared.parameters["required"] == ["word"]
    tool, params = registry.parse("shout", '{"word": "hi", "times": 2}')
    assert tool.title(params) == "hi"
    assert tool.actions(params, context) == (CallExternal("project", "shout"),)
    assert (await tool.run(params, context)).text == "HIHI"
    assert '"word"' in (await tool.preview(params, context)).text
    tool, params = registry.parse("where", "")
    assert (await tool.run(params, context)).text == str(context.workspace.root)


@pytest.mark.parametrize("kind", ["summary", "output", "text"])
def test_a_tool_says_how_its_results_are_shown(kind: str) -> None:
    source = GOOD.replace(b'name = "shout"', f'name = "shout"; result_kind = "{kind}"'.encode())
    tools, problems = of_project({".agent/tools/loud.py": source}, set())
    assert not problems and [tool.result_kind for tool in tools] == [kind, "text"]


@each_row(("label", "shown"), [("Shout", "Shout"), ("$", ""), ("● $ ls", ""), ("a\\nb", ""), ("x" * 99, "")])
def test_the_word_for_people_cannot_look_like_a_command(label: str, shown: str) -> None:
    source = GOOD.replace(b'name = "shout"', f'name = "shout"; label = "{label}"; counted = "file"'.encode())
    tools, _ = of_project({".agent/tools/loud.py": source}, set())
    assert [(tool.label, tool.counted) for tool in tools] == [(shown, ""), ("", "")]


def test_no_tool_of_a_plugin_has_the_name_of_a_servers_tool() -> None:
    source = GOOD.replace(b'name = "shout"', b'name = "mcp__tracker__close"')
    tools, problems = of_project({".agent/tools/loud.py": source}, set())
    assert not tools and "of a tool of an MCP server" in problems[0]


@pytest.mark.parametrize("kind", ["answer", "question", "loud"])
def test_no_tool_of_a_plugin_speaks_for_the_model_or_the_user(kind: str) -> None:
    source = GOOD.replace(b'name = "shout"', f'name = "shout"; result_kind = "{kind}"'.encode())
    tools, problems = of_project({".agent/tools/loud.py": source}, set())
    assert not tools and "result_kind" in problems[0]


async def test_a_tool_imports_what_was_read_with_it_and_not_what_stands_on_the_disk(context: ToolContext) -> None:
    tool = GOOD.replace(b"word.upper()", b"word.upper() + END")
    for end in (b"!", b"?"):
        sources = {
            ".agent/tools/loud.py": b"from agent_project_tools.parts.ends import END\n" + tool,
            ".agent/tools/parts/__init__.py": b"MARK = '" + end + b"'",
            ".agent/tools/parts/ends.py": b"from . import MARK\nfrom ._more import more\nEND = more(MARK)\nTOOLS = 1",
            ".agent/tools/parts/_more.py": b"def more(mark):\n    return mark * 2",
        }
        tools, problems = of_project(sources, set())
        assert not problems and [each.name for each in tools] == ["shout", "where"]
        shout, params = default_registry(extra=tools).parse("shout", '{"word": "hi"}')
        assert (await shout.run(params, context)).text == f"HI{end.decode() * 2}"


def test_libraries_can_still_look_through_all_modules(tmp_path: Path) -> None:
    tools, problems = of_project({".agent/tools/loud.py": GOOD}, set())
    assert tools and not problems and "agent_project_tools" in sys.modules
    code = compile(
        "import inspect, sys\nfound = inspect.getmodule(sys._getframe())", str(tmp_path / "x.py"), "exec"
    )
    (tmp_path / "x.py").touch()
    exec(code, names := {"__name__": "nowhere"})
    assert names["found"] is None


@each_row(
    ("source", "why"),
    [
        (b"x = 1", "no list `TOOLS`"),
        (b"1/0", "ZeroDivisionError"),
        (b"def", "SyntaxError"),
        (b"import msgspec\nclass T:\n name='Bad Name'\n Params=msgspec.Struct\n def run(s,p,c): ...\nTOOLS=[T]", "Bad Name"),
        (b"class T:\n name='t'\n def run(s,p,c): ...\nTOOLS=[T]", "no `Params`"),
        (b"import msgspec\nclass T:\n name='t'\n class Params(msgspec.Struct):\n  a: bytes\n def run(s,p,c): ...\nTOOLS=[T]", "no schema for"),
        (b"import msgspec\nclass T:\n name='t'\n class Params(msgspec.Struct): ...\nTOOLS=[T]", "no `run"),
        (b"raise SystemExit(3)", "SystemExit"),
    ],
)  # fmt: skip
def test_a_tool_that_cannot_be_used_is_told_and_harms_no_other(source: bytes, why: str) -> None:
    tools, problems = of_project({"bad.py": source, "good.py": GOOD}, set())
    assert [tool.name for tool in tools] == ["shout", "where"]
    (problem,) = problems
    assert problem.startswith("bad.py is not used: ") and why in problem


def test_a_project_cannot_take_the_name_of_another_tool() -> None:
    sources = {"a.py": GOOD.replace(b'"shout"', b'"read_file"'), "b.py": GOOD, "c.py": GOOD}
    tools, problems = of_project(sources, {"read_file", "web_search"})
    assert [tool.name for tool in tools] == ["shout", "where"]
    assert problems == [
        "a.py is not used: there is another tool named read_file",
        "c.py is not used: there is another tool named shout",
    ]


def test_a_tool_that_never_ends_does_not_keep_the_program() -> None:
    code = """
import asyncio, time, msgspec
from agent_cli.tools.plugins import Extension
class Hangs:
    name = "hangs"
    Params = type("P", (msgspec.Struct,), {})
    def run(self, params, context): time.sleep(60)
async def main():
    try:
        await asyncio.wait_for(Extension(Hangs(), "x", asks=True).run(None, None), 0.2)
    except TimeoutError:
        print("given up")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert done.stdout == "given up\n", done.stderr


class Looks:
    """Looks at a file."""

    name = "looks"

    class Params(msgspec.Struct):
        path: str

    def actions(self, params: Any, context: ToolContext) -> tuple[ReadPath, ...]:
        return (ReadPath(params.path, params.path),)

    def run(self, params: Any, context: ToolContext) -> str:
        raise ValueError("boom")


async def test_an_installed_tool_may_say_itself_what_it_does(context: ToolContext) -> None:
    tool = Extension(Looks(), "looker", asks=False)
    params = tool.Params("/x")
    assert tool.actions(params, context) == (ReadPath("/x", "/x"),)
    assert Extension(Looks(), "project", asks=True).actions(params, context) == (CallExternal("project", "looks"),)
    with pytest.raises(ValueError, match="boom"):
        await tool.run(params, context)


def test_an_unknown_plugin_is_told() -> None:
    assert installed(["no-such"], set()) == ([], ["tools.plugins: no installed package has a tool 'no-such'"])


def test_an_installed_package_brings_its_tools(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_bytes(GOOD)
    info = tmp_path / "loud-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[agent_cli.tools]\nloud = loud:TOOLS\n", encoding="utf-8")
    code = "from agent_cli.tools.plugins import installed; t, p = installed(['loud'], set()); print([x.name for x in t], p)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"},
        capture_output=True, text=True, timeout=60, cwd="/",
    )  # fmt: skip
    assert done.stdout.strip() == "['shout', 'where'] []", done.stderr


def test_something_that_is_no_tool_is_refused() -> None:
    with pytest.raises(ExtensionError, match="name"):
        Extension(object(), "x", asks=True)
