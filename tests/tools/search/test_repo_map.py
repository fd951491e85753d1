"""repo_map: what the rest refers to comes first, within the budget, and only what changed is read again."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.protocol.actions import ReadPath
from agent_cli.tools.kit.base import ToolContext, ToolError, ToolOutcome
from agent_cli.tools.search.repo_map import MapParams, RepoMap
from agent_cli.workspace.symbols.cache import cache_file

FILES = {
    "core/engine.py": "class Engine:\n    def start_engine(self):\n        pass\n\ndef unused_helper():\n    pass\n",
    "app.py": "from core.engine import Engine\n\ndef main():\n    Engine().start_engine()\n",
    "tool.py": "from core.engine import Engine\n\ndef run_tool():\n    return Engine().start_engine()\n",
    "web/store.ts": "export interface StoreState { items: string[] }\nexport function loadStore(): StoreState { return { items: [] } }\n",
    "web/view.tsx": "import { loadStore, StoreState } from './store'\nexport const View = () => <p>{loadStore().items}</p>\n",
    "web/page.js": "const state = loadStore()\nfunction renderPage() { return state }\n",
    "svc/server.go": "package svc\n\ntype RequestServer struct{}\n\nfunc (s *RequestServer) ServeAll() {}\n",
    "svc/run.go": "package svc\n\nfunc Run() { s := RequestServer{}; s.ServeAll() }\n",
    "lib/shape.rs": "pub struct ShapeBox { side: u32 }\nimpl ShapeBox { pub fn area_of(&self) -> u32 { self.side } }\n",
    "lib/use_it.rs": "fn total(x: ShapeBox) -> u32 { x.area_of() }\n",
}


@pytest.fixture
def project(root: Path) -> Path:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


async def outline(context: ToolContext, **params: Any) -> ToolOutcome:
    return await RepoMap().run(MapParams(**params), context)


def files_of(outcome: ToolOutcome) -> list[str]:
    return [line for line in outcome.text.splitlines() if not line.startswith(("  ", "["))]


async def test_what_is_referred_to_comes_first_in_every_language(context: ToolContext, project: Path) -> None:
    outcome = await outline(context)
    lines, order = outcome.text.splitlines(), files_of(outcome)
    for referred, referring in (
        ("core/engine.py", "app.py"),
        ("web/store.ts", "web/page.js"),
        ("svc/server.go", "svc/run.go"),
        ("lib/shape.rs", "lib/use_it.rs"),
    ):
        assert order.index(referred) < order.index(referring)
    assert order[0] in ("core/engine.py", "web/store.ts")
    assert "  1: class Engine:" in lines and "  2: def start_engine(self):" in lines
    assert (
        "  5: func (s *RequestServer) ServeAll() {}" in lines and "  1: pub struct ShapeBox { side: u32 }" in lines
    )
    assert lines[-1] == "[10 of 10 files, the most referred to first; 10 read anew]"


async def test_the_most_used_definitions_are_those_that_fit(context: ToolContext, project: Path) -> None:
    (project / "core" / "engine.py").write_text(
        FILES["core/engine.py"] + "".join(f"def filler_{n}():\n    pass\n" for n in range(200)), encoding="utf-8"
    )
    for max_tokens in (150, 300, 700):
        outcome = await outline(context, max_tokens=max_tokens)
        assert len(outcome.text.encode()) <= max_tokens * 4
        assert "class Engine" in outcome.text
    assert "filler_199" in (await outline(context, max_tokens=8000)).text
    assert len((await outline(context, max_tokens=10**9)).text) <= 32_000


async def test_a_focus_moves_its_surroundings_to_the_front(context: ToolContext, project: Path) -> None:
    assert set(files_of(await outline(context, focus=("svc/run.go",)))[:2]) == {"svc/run.go", "svc/server.go"}
    assert files_of(await outline(context, focus=("area_of",)))[0] == "lib/shape.rs"
    assert len(files_of(await outline(context, focus=("nothing like it",)))) == 10


async def test_only_what_changed_is_read_again(context: ToolContext, project: Path) -> None:
    first = await outline(context)
    again = await outline(context)
    assert again.text == first.text.replace("10 read anew", "0 read anew")
    (project / "app.py").write_text("def other_main():\n    pass\n", encoding="utf-8")
    (project / "tool.py").unlink()
    (project / "new.py").write_text("def brand_new(): pass\n", encoding="utf-8")
    changed = await outline(context)
    assert "2 read anew" in changed.text and "brand_new" in changed.text and "tool.py" not in changed.text
    os.utime(project / "app.py", (1, 1))
    assert "1 read anew" in (await outline(context)).text


@pytest.mark.parametrize("damage", [b"", b"\0" * 500, None])
async def test_a_damaged_cache_is_made_anew(context: ToolContext, project: Path, damage: bytes | None) -> None:
    whole = await outline(context)
    cache = cache_file(context.cache_dir, str(project))
    data = cache.read_bytes()
    cache.write_bytes(data[:-20] + bytes(20) if damage is None else damage)
    assert (await outline(context)).text == whole.text
    assert cache.read_bytes()[:10] == data[:10] and "0 read anew" in (await outline(context)).text


async def test_a_cache_that_cannot_be_written_is_no_error(context: ToolContext, project: Path) -> None:
    context.cache_dir.parent.mkdir(parents=True, exist_ok=True)
    context.cache_dir.write_text("a file in its place", encoding="utf-8")
    assert "10 read anew" in (await outline(context)).text


async def test_two_at_once_do_not_disturb_each_other(context: ToolContext, project: Path) -> None:
    one, two = await asyncio.gather(outline(context), outline(context))
    assert one.text == two.text
    assert "0 read anew" in (await outline(context)).text
    assert len(list(context.cache_dir.rglob("*"))) == 2


async def test_what_is_ignored_closed_or_kept_back_stays_out(context: ToolContext, project: Path) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / ".gitignore").write_text("web/\n", encoding="utf-8")
    (project / ".agentignore").write_text("svc/*\n!svc/run.go\n", encoding="utf-8")
    context = msgspec.structs.replace(context, may_show=lambda path: not path.endswith("shape.rs"))
    outcome = await outline(context)
    assert set(files_of(outcome)) == {"core/engine.py", "app.py", "tool.py", "svc/run.go", "lib/use_it.rs"}
    assert "RequestServer struct" not in outcome.text and "ShapeBox {" not in outcome.text
    assert (await outline(context, path="web")).text.startswith("web/store.ts\n")


async def test_minified_large_and_binary_files_have_no_symbols(context: ToolContext, root: Path) -> None:
    (root / "min.js").write_text("function a_function(){};" * 1000, encoding="utf-8")
    (root / "large.py").write_text("def large_function(): pass\n" * 50_000, encoding="utf-8")
    (root / "binary.py").write_bytes(b"def binary_function(): pass\n\0")
    (root / "broken.py").write_bytes(b"def broken(:\n    \xff\xfe = \n\ndef found_anyway(): pass\n")
    outcome = await outline(context)
    assert "_function" not in outcome.text and "found_anyway" in outcome.text
    assert set(files_of(outcome)) == {"min.js", "large.py", "binary.py", "broken.py"}


@pytest.mark.parametrize("name", ["-rf.py", "new\nline.py", "ü 漢🎉.py", "esc\x1b[31m.py", "a'b\"c$(x).py"])
async def test_hostile_names_come_out_on_one_line(context: ToolContext, root: Path, name: str) -> None:
    (root / name).write_text("def hostile(): pass\n", encoding="utf-8")
    Path(os.fsdecode(bytes(root) + b"/raw\xff.py")).write_text("def raw_one(): pass\n", encoding="utf-8")
    outcome = await outline(context)
    outcome.text.encode("utf-8")
    assert "\x1b" not in outcome.text and len(outcome.text.splitlines()) == 3
    assert "raw_one" not in outcome.text and "hostile" in outcome.text


LANGUAGES = {
    "a.java": "class JavaOne { void javaTwo() {} }",
    "b.c": "struct c_one { int x; };\nint c_two(int a) { return a; }",
    "c.hpp": "class CppOne { void cppTwo(); };\nvoid CppOne::cppTwo() {}",
    "d.rb": "class RubyOne\n  def ruby_two\n  end\nend",
    "e.php": "<?php class PhpOne { function phpTwo() {} }",
    "f.cs": "class SharpOne { void SharpTwo() {} }",
    "g.sh": "bash_one() { true; }\nfunction bash_two { true; }",
    "h.js": "class JsOne { jsTwo() {} }",
}


async def test_every_language_is_understood(context: ToolContext, root: Path) -> None:
    for name, text in LANGUAGES.items():
        (root / name).write_text(text, encoding="utf-8")
    outcome = await outline(context)
    for word in "JavaOne javaTwo c_one c_two CppOne cppTwo RubyOne ruby_two PhpOne phpTwo SharpOne SharpTwo bash_one bash_two JsOne jsTwo".split():
        assert word in outcome.text, word


async def test_other_text_is_ranked_by_mentions_of_its_name(context: ToolContext, root: Path) -> None:
    (root / "settings.yaml").write_text("a: 1\n", encoding="utf-8")
    (root / "other.yaml").write_text("a: 1\n", encoding="utf-8")
    (root / "app.py").write_text("load(settings)\n", encoding="utf-8")
    assert files_of(await outline(context))[0] == "settings.yaml"


async def test_what_cannot_be_outlined_is_said(context: ToolContext, root: Path) -> None:
    with pytest.raises(ToolError, match="no source code below"):
        await outline(context)
    (root / "f.py").touch()
    with pytest.raises(ToolError, match="use read_file"):
        await outline(context, path="f.py")
    assert RepoMap().actions(MapParams(), context) == (ReadPath(str(root), "."),)


async def test_a_cancelled_call_leaves_nothing_running(context: ToolContext, project: Path) -> None:
    task = asyncio.ensure_future(outline(context))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "read anew" in (await outline(context)).text
