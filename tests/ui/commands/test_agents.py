"""`/agents`: what is listed and shown, and what reaches the engine."""

import msgspec
import pytest

from agent_cli.protocol.client import AgentLine
from agent_cli.protocol.operations import ControlAgent
from agent_cli.ui.commands.registry import TABLE
from agent_cli.ui.dialogs.answers import runs_now
from tests.ui.commands.test_registry import Desk, run

AGENTS = (
    AgentLine("1a2b", "explore-1", "explore", "running", "find it", False, 3, 0.02, 65.0, "Read a", "/s/1.jsonl"),
    AgentLine("1a3c", "general-1", "general", "waiting", "do \x1b[2Jit", True, 0, None, 2.0, "", "", "/wt/1"),
)


async def test_the_list_has_all_there_is_to_know() -> None:
    rows = (await run("/agents", agents=AGENTS)).text.split("\n")
    assert rows[:4] == [
        "  ● explore-1  1a2b  explore  running  3 steps  $0.0200  1m05s",
        "    find it",
        "  ? general-1  1a3c  general  waiting for you  in the background  0 steps  2.0s",
        "    do it",
    ]
    assert (await run("/agents")).text.startswith("No sub-agent has been started. /agents NAME shows one;")


@pytest.mark.parametrize("name", ["explore-1", "1a2b", "1a2"])
async def test_one_is_shown_with_what_its_session_holds(name: str) -> None:
    desk = await run(f"/agents {name}", agents=AGENTS, busy=True)
    assert "● explore-1" in desk.said[0] and desk.said[0].endswith("session: /s/1.jsonl\n    now: Read a")
    assert desk.said[1].startswith("3 turns: task 3, Answer 3 of /s/1.jsonl., task 2")
    over = tuple(msgspec.structs.replace(agent, state="done", line="The end. " * 40) for agent in AGENTS)
    desk = await run(f"/agents {name}", agents=over)
    assert "The end." not in desk.said[0], "the transcript below has it"
    desk = await run("/agents general-1", agents=over)
    assert "    said: The end." in desk.said[0] and max(map(len, desk.said[0].split("\n"))) <= desk.columns
    desk = await run("/agents general-1", agents=AGENTS)
    assert "session: not saved\n    worktree: /wt/1" in desk.text and len(desk.said) == 1


@pytest.mark.parametrize(
    ("line", "operation"),
    [
        ("stop explore-1", ControlAgent("1a2b", "stop")),
        ("send explore-1 look  at b.py", ControlAgent("1a2b", "send", "look  at b.py")),
    ],
)
async def test_one_is_acted_on_while_a_turn_runs(line: str, operation: ControlAgent) -> None:
    desk = await run(f"/agents {line}", agents=AGENTS, busy=True)
    assert desk.client.operations(ControlAgent) == [operation] and desk.said == []
    assert runs_now(f"/agents {line}")


async def test_a_merge_is_shown_and_asked_about() -> None:
    refused = await run("/agents merge 1a3c", "no", agents=AGENTS)
    assert "-one" in refused.text and "+two" in refused.text and "Nothing merged." in refused.text
    assert not refused.client.operations(ControlAgent)
    agreed = await run("/agents merge 1a3c", "yes", agents=AGENTS, busy=True)
    assert agreed.client.operations(ControlAgent) == [ControlAgent("1a3c", "merge")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("stop nobody", "There is no sub-agent nobody. The sub-agents are: explore-1 (1a2b), general-1 (1a3c)."),
        ("1a", "There is no sub-agent 1a. The"),
        ("stop", "Name a sub-agent. The sub-agents are: "),
        ("send explore-1", "Write what to tell it: /agents send NAME TEXT."),
    ],
)
async def test_what_is_wrong_with_a_line_is_said(line: str, said: str) -> None:
    desk = await run(f"/agents {line}", agents=AGENTS)
    assert desk.text.startswith(said) and not desk.client.operations(ControlAgent)


async def test_types_are_listed_with_their_files() -> None:
    rows = (await run("/agents types")).text.split("\n")
    assert rows == [
        "  explore  built-in", "    Finds things out.", "  docs  ~/.agents/docs.md", "    Writes docs.",
    ]  # fmt: skip


def test_names_are_completed() -> None:
    values = TABLE["agents"].values
    assert values is not None
    found = [*values(Desk(agents=AGENTS))]
    assert {"explore-1", "stop explore-1", "send general-1", "merge general-1", "types"} <= {*found}


async def test_the_status_counts_those_that_run() -> None:
    assert "sub-agents 2 running, 0 ended" in (await run("/status", agents=AGENTS)).text
    assert "sub-agents" not in (await run("/status")).text
