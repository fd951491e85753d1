"""A rule that denies a host denies it however its address is written, through the real program."""

import json

import pytest

from tests.e2e.test_sandbox_network import FETCHED, listening
from tests.e2e.world import World
from tests.model.server import Call, Reply


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]", "localhost", "LOCALHOST."])
def test_a_denied_host_is_not_fetched(world: World, host: str) -> None:
    config = {
        "tools": {"web": {"private_hosts": ["*"]}},
        "permissions": {"deny": ["fetch(127.0.0.1)", "fetch(localhost)"]},
    }
    (world.config / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    with listening() as port:
        world.script(Reply(calls=(Call("web_fetch", {"url": f"http://{host}:{port}/"}),)), Reply(text="done"))
        world.run("run", "go", "--mode", "yolo")
    (result,) = world.records("tool_result")
    assert result["status"] == "denied" and FETCHED not in result["text"], result
