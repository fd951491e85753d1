"""Services of the REPL: the saved sessions that a conversation lists."""

import os
from pathlib import Path
from typing import cast

from agent_cli.bootstrap.options import ParsedOptions
from agent_cli.bootstrap.session_builder import OpenSession
from agent_cli.bootstrap.setup import Setup
from agent_cli.cli.services.repl_services import SessionHost
from agent_cli.protocol.records import ModelCalled
from agent_cli.protocol.usage import Totals
from tests.store.test_catalog import prompt, saved


async def test_sessions_are_listed_from_the_index_so_that_long_ones_stop_no_key(tmp_path: Path) -> None:
    for folder in ("work", "own"):
        (tmp_path / folder).mkdir()
    setup = Setup(ParsedOptions("agent", {}), root=tmp_path / "work", own=tmp_path / "own")
    host = SessionHost(setup, cast(OpenSession, None))
    priced = ModelCalled(id="c1", kind="main", model="m/x", outcome="stop", cost_usd=0.5)
    path = saved(setup.sessions, setup.root, "abcd1111", prompt("look"), priced, ModelCalled(
        id="c2", kind="main", model="m/x", outcome="error"
    ))  # fmt: skip
    (line,) = host.sessions()
    assert (line.id, line.title, line.turns) == ("abcd1111", "look", 1)
    assert line.used == Totals(requests=2, cost_usd=0.5, unpriced=1)
    before = path.stat()
    path.write_bytes(b"?" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert host.sessions() == (line,), "the file was read again"
    assert await host.find_session("look") == ("abcd1111", "")
    found, problem = await host.find_session("nothing")
    assert not found and "no session with the ID or name 'nothing'" in problem
