"""The entry for the registry of agents keeps its rules, and the program passes the check that it makes."""

import json
import re
import tomllib
from typing import Any
from xml.etree import ElementTree

from agent_cli import __version__
from tests.docs.pages import ROOT
from tests.e2e.editor import Editor
from tests.e2e.world import World

FOLDER = ROOT / "docs" / "registry"
ENTRY: dict[str, Any] = json.loads((FOLDER / "agent.json").read_text(encoding="utf-8"))


def test_the_entry_names_this_version_of_the_package() -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*", ENTRY["id"])
    assert {"name", "description", "license"} <= ENTRY.keys() and all(ENTRY["authors"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", ENTRY["version"]) and ENTRY["version"] == __version__
    runs = ENTRY["distribution"]["uvx"]
    assert runs == {"package": f"agent-cli=={__version__}", "args": ["acp"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == ENTRY["license"]
    assert project["name"] in project["scripts"], "what runs a package runs the command of its name"


def test_the_icon_is_small_and_has_no_colours_of_its_own() -> None:
    icon = ElementTree.fromstring((FOLDER / "icon.svg").read_text(encoding="utf-8"))
    assert (icon.get("width"), icon.get("height"), icon.get("viewBox")) == ("16", "16", "0 0 16 16")
    colours = {each.get(name) for each in icon.iter() for name in ("fill", "stroke")} - {None}
    assert colours == {"none", "currentColor"}
    assert not [each for each in icon.iter() if each.get("style") or each.tag.endswith(("image", "script", "use"))]


def test_the_first_line_of_a_fresh_machine_names_a_way_to_log_in(world: World) -> None:
    nobody: dict[str, str | None] = {"TERM": "dumb", "AGENT_MODEL": None, "OPENAI_API_KEY": None}
    nobody |= {"OPENAI_BASE_URL": None, "AGENT_STATE_DIR": None, "AGENT_CONFIG_DIR": None}
    with Editor(world, env=nobody) as editor:
        answer = editor.answer(editor.send("initialize", protocolVersion=1, clientCapabilities={}))
        assert editor.received[0] == answer
        kinds = [each.get("type", "agent") for each in answer["result"]["authMethods"]]
    assert set(kinds) & {"agent", "terminal"}
