"""Sub-agents that a project defines: not there without a yes, and again not after a change of the file."""

import subprocess
import sys

from tests.extensions.plugins.made import claude
from tests.model.server import Call, Reply

from .person import GUARD_S, Person
from .test_plugins import add, stored
from .world import World

CRITIC = (
    "---\nname: critic\ndescription: Criticises\ntools: Read\npermissionMode: plan\ncolor: red\n---\nBe strict.\n"
)
TYPES = (
    "from agent_cli.bootstrap.agents import agent_types, found_agents\nfrom agent_cli.bootstrap.options import parse\n"
    "from agent_cli.bootstrap.setup import Setup\nsetup = Setup(parse('run', ['x']))\n"
    "print([(each.name, each.tools, each.mode) for each in agent_types(setup)], [n for _, n in found_agents(setup).notes])"
)


def types(world: World) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TYPES], env=world.environment(), cwd=world.work, timeout=90,
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_sub_agent_meant_for_a_provider_without_a_key_uses_the_model_of_the_conversation(world: World) -> None:
    """Most files of Claude Code name one of its models."""
    file = world.home / ".claude" / "agents" / "critic.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: critic\ndescription: d\nmodel: sonnet\n---\nCriticise.\n", encoding="utf-8")
    call = {"task": "Look.", "type": "critic"}
    world.script(Reply(calls=(Call("agent", call),)), Reply(text="Fine."), Reply(text="ok"))
    done = world.run("run", "go")
    assert done.code == 0 and "Fine." in world.messages(-1, "tool")[-1]
    assert (
        "critic is meant for the model sonnet (anthropic needs a key: set ANTHROPIC_API_KEY); it uses" in done.err
    )


def test_a_model_chooses_for_a_sub_agent_only_among_models_that_the_user_has_to_do_with(world: World) -> None:
    """A recording would be read by it, whatever may be read, and another provider would be sent the task."""
    world.script(Reply(text="a secret of another project"))
    assert world.run("run", "go", "--cd", str(world.home)).code == 0
    (recording,) = world.sessions()

    def asked(model: str) -> str:
        world.script(Reply(calls=(Call("agent", {"task": "Look.", "model": model}),)), *answers, Reply(text="ok"))
        world.run("run", "go", "--mode", "plan")
        return world.messages(-1, "tool")[-1]

    answers = [Reply(text="Fine.")]
    assert "Fine." in asked("openai/another-model")
    answers = []
    for model in (f"replay/{recording}", "ollama/llama", "opus"):
        assert f"{model} cannot be chosen" in asked(model)
    (world.config / "config.yaml").write_text("fallback_models: [anthropic/claude-opus-4-6]\n", encoding="utf-8")
    assert "anthropic needs a key" in asked("anthropic/claude-opus-4-6")


def test_a_sub_agent_works_without_skills_that_do_not_exist(world: World) -> None:
    """As in Claude Code, where some files name documents instead of skills."""
    for name, text in (
        ("agents/critic.md", "name: critic\ndescription: d\nskills: [docs/rules.md, look, nope]\n---\nCriticise."),
        ("skills/look/SKILL.md", "name: look\ndescription: d\n---\nLook twice."),
    ):
        file = world.home / ".claude" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\n{text}\n", encoding="utf-8")
    world.script(
        Reply(calls=(Call("agent", {"task": "Go.", "type": "critic"}),)), Reply(text="Fine."), Reply(text="ok")
    )
    done = world.run("run", "go")
    assert done.code == 0 and "Fine." in world.messages(-1, "tool")[-1]
    assert "Look twice." in str(world.messages(1))
    assert (
        "critic works without these skills, which its file names and which do not exist: docs/rules.md, nope"
        in done.err
    )


def test_many_sub_agents_that_are_not_trusted_are_one_line(world: World) -> None:
    folder = world.work / ".claude" / "agents"
    folder.mkdir(parents=True)
    for number in range(60):
        (folder / f"critic-{number}.md").write_text(CRITIC.replace("name: critic", f"name: critic-{number}"))
    (world.work / ".mcp.json").write_text('{"mcpServers": {"db": {"command": "true"}}}')
    world.script(Reply(text="ok"))
    lines = [line for line in world.run("run", "go").err.splitlines() if "trusted" in line]
    assert lines[1:] == ["60 sub-agents of this project are ignored: not trusted. Start `agent` once."]
    assert ".mcp.json#db is ignored: not trusted" in lines[0]


def test_a_sub_agent_of_the_project_is_there_only_as_it_was_agreed_to(world: World) -> None:
    file = world.work / ".claude" / "agents" / "critic.md"
    file.parent.mkdir(parents=True)
    file.write_text(CRITIC, encoding="utf-8")
    world.script(Reply(text="ok"))
    before = world.run("run", "go")
    assert before.err.count("critic.md is ignored: not trusted") == 1 and types(world) == "[] []"
    with Person(world, is_awaited=False) as person:
        person.wait("sub-agent critic: Criticises")
        person.wait("Esc cancel")
        person.pump(GUARD_S)
        person.type("y")
        person.wait("1 sub-agent")
        person.leave()
    assert types(world) == "[('critic', ('read_file',), 'plan')] ['without effect: color']"
    assert "sub-agent critic; without effect: color" in world.run("doctor", "--files").out
    file.write_text(CRITIC.replace("Read", "Bash"), encoding="utf-8")
    assert types(world) == "[] []"
    assert "sub-agent critic: not trusted" in world.run("doctor", "--files").out


def test_a_sub_agent_of_a_plug_in_is_there_until_a_byte_changes(world: World) -> None:
    add(world, str(claude(world.home / "tools")))
    assert types(world) == "[('tools:helper', None, None)] ['without effect: hooks']"
    (stored(world, "tools") / "agents" / "helper.md").write_text(CRITIC, encoding="utf-8")
    assert types(world) == "[] []"


def test_without_files_there_is_none(world: World) -> None:
    assert types(world) == "[] []"
