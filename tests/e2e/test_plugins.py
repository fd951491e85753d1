"""Plug-ins through the program: nothing runs before the yes, what runs is what was shown, and a changed byte stops
it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Commands
from tests.e2e.killed import killed_at_the_tenth
from tests.e2e.person import Person
from tests.e2e.world import World, finish
from tests.extensions.plugins.made import claude, codex, gemini, hooks, write
from tests.model.server import Call, Reply

FAULT_SERVER = Path(__file__).parents[1] / "mcp" / "servers" / "fault_server.py"


SERVER = (
    f"import runpy, sys\nsys.path.insert(0, {str(FAULT_SERVER.parent)!r})\n"
    f"runpy.run_path({str(FAULT_SERVER)!r}, run_name='__main__')\n"
)


def canary(world: World, name: str = "canary") -> Path:
    """A plug-in every part of which leaves a trace in the home directory when it runs."""
    trace = f"open({str(world.home)!r} + '/ran-{{}}', 'a').write('x')\n"
    return write(
        world.home / name,
        {
            ".claude-plugin/plugin.json": {"name": name, "version": "1"},
            "hooks/hooks.json": hooks(f"{sys.executable} ${{CLAUDE_PLUGIN_ROOT}}/guard.py", matcher="Bash"),
            "guard.py": trace.format("hook"),
            ".mcp.json": {"db": {"command": sys.executable, "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"]}},
            "server.py": trace.format("server") + SERVER,
            "commands/go.md": f"Go: !`touch {world.home}/ran-command`\n",
            "skills/look/SKILL.md": f"---\nname: look\ndescription: Look.\n---\n!`touch {world.home}/ran-skill`\n",
        },
    )


def traces(world: World) -> set[str]:
    return {path.name for path in world.home.glob("ran-*")}


def but_for_servers(world: World) -> set[str]:
    """The traces of a conversation, which looks for the tools of its servers at a time of its own."""
    return traces(world) - {"ran-server"}


def add(world: World, source: str) -> None:
    """Add a plug-in by its hash, which the first try prints."""
    with Commands(world) as agent:
        agree(agent, source)


def agree(agent: Commands, source: str) -> None:
    refused = agent.run("plugin", "add", source)
    assert refused.code == 2 and "this needs your confirmation" in refused.err, refused
    done = agent.run("plugin", "add", source, "--yes-hash", refused.err.split()[-1])
    assert done.code == 0 and "Added" in done.out, done


def stored(world: World, name: str = "canary") -> Path:
    (folder,) = (path for path in (store(world) / name).iterdir() if path.is_dir())
    return folder


def store(world: World) -> Path:
    return world.state.with_name(f"{world.state.name}-plugins") / "store"


def shell(command: str = "echo hello") -> Reply:
    return Reply(calls=(Call("shell", {"command": command}),))


def test_nothing_runs_before_the_yes_and_then_what_was_shown(world: World) -> None:
    source = str(canary(world))
    (world.config / "config.yaml").write_text(
        'permissions: {allow: ["mcp(plugin_canary_db/*)"]}\n', encoding="utf-8"
    )
    refused = world.run("plugin", "add", source)
    for shown in (
        "hook at PreToolUse for Bash: runs", "guard.py (", "MCP server db: runs", "server.py (",
        "/canary:go: inserts the output of touch", "skill look: inserts the output of touch",
    ):  # fmt: skip
        assert shown in refused.out
    world.script(shell(), Reply(text="ok"))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    assert world.run("plugin", "add", source, "--yes-hash", "0" * 40).code == 2
    assert "No plug-in is installed" in world.run("plugin", "list").out and not traces(world)
    with Person(world, "plugin", "add", source, is_awaited=False) as person:
        person.wait("Add it\\?")
        person.send("y\r")
        assert person.finish() == 0
        assert "Added canary" in person.text
    assert "canary  enabled" in world.run("plugin", "list").out
    assert world.run("plugin", "show", "canary").code == 0 and not traces(world)
    call = {"name": "mcp__plugin_canary_db__echo", "arguments": {"text": "hello"}}
    world.script(
        shell(),
        Reply(calls=(Call("find_tools", {"query": "echo a text"}),)),
        Reply(calls=(Call("call_tool", call),)),
        Reply(text="ok"),
    )
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 0, done.err
    assert traces(world) == {"ran-hook", "ran-server"} and "hello" in world.messages(-1, "tool")[-1]
    world.script(Reply(text="ok"))
    assert world.run("run", "/canary:go", "--mode", "yolo").code == 0
    assert "ran-command" in traces(world) and "Go:" in world.messages(-1, "user")[-1]
    world.script(Reply(text="ok"))
    assert world.run("run", "/canary:look", "--mode", "yolo").code == 0
    assert "ran-skill" in traces(world)


SETS_UP = """\
---
allowed-tools: ["Bash(${CLAUDE_PLUGIN_ROOT}/scripts/setup.sh:*)"]
---
```!
"${CLAUDE_PLUGIN_ROOT//\\\\//}/scripts/setup.sh" $ARGUMENTS
```
"""


def test_a_command_may_run_the_scripts_of_its_plugin(world: World) -> None:
    source = write(
        world.home / "loops",
        {
            ".claude-plugin/plugin.json": {"name": "loops", "version": "1"},
            "commands/go.md": SETS_UP,
            "scripts/setup.sh": "#!/bin/sh\necho set up: $*\n",
        },
    )
    (source / "scripts" / "setup.sh").chmod(0o755)
    # Not in a temporary folder, which is private to the commands of the sandbox.
    usual: dict[str, str | None] = {"AGENT_STATE_DIR": str(world.home / "state")}
    shown = world.run("plugin", "add", str(source), env=usual)
    assert "setup.sh" in shown.out and "$ARGUMENTS" in shown.out
    assert world.run("plugin", "add", str(source), "--yes-hash", shown.err.split()[-1], env=usual).code == 0
    world.script(Reply(text="ok"))
    assert world.run("run", "/loops:go for ever", env=usual).code == 0
    assert "set up: for ever" in world.messages(-1, "user")[-1]


def test_texts_of_a_plugin_find_its_files_in_a_folder_with_a_space(world: World) -> None:
    """As below `Application Support` on macOS."""
    source = write(
        world.home / "loops",
        {
            ".claude-plugin/plugin.json": {"name": "loops", "version": "1"},
            "commands/go.md": (
                "---\nallowed-tools: Bash(sh ${CLAUDE_PLUGIN_ROOT}/scripts/setup.sh:*)\n---\n"
                "Bare: !`sh ${CLAUDE_PLUGIN_ROOT}/scripts/setup.sh one`\n"
                'Quoted: !`sh "${CLAUDE_PLUGIN_ROOT}/scripts/setup.sh" two`\n'
            ),
            "scripts/setup.sh": "echo set up: $*\n",
            "hooks/hooks.json": hooks("sh ${CLAUDE_PLUGIN_ROOT}/guard.sh", matcher="Bash"),
            "guard.sh": "echo not with this plug-in >&2; exit 2\n",
            "agents/critic.md": (
                "---\nname: critic\ndescription: d\nskills: [look]\n---\nFollow ${CLAUDE_PLUGIN_ROOT}/rules.md.\n"
            ),
            "skills/look/SKILL.md": "---\nname: look\ndescription: d\n---\nLook twice.\n",
        },
    )
    usual: dict[str, str | None] = {"AGENT_STATE_DIR": str(world.home / "my state")}
    shown = world.run("plugin", "add", str(source), env=usual)
    assert world.run("plugin", "add", str(source), "--yes-hash", shown.err.split()[-1], env=usual).code == 0
    world.script(
        Reply(calls=(Call("agent", {"task": "Look.", "type": "loops:critic"}),)),
        Reply(text="Fine."),
        Reply(text="ok"),
    )
    assert world.run("run", "/loops:go", "--no-hooks", env=usual).code == 0
    asked = world.messages(0, "user")[-1]
    assert "Bare: set up: one" in asked and "Quoted: set up: two" in asked
    assert f"{world.home}/my state-plugins/store/loops/" in str(world.bodies()[1]["messages"][0])
    assert "Look twice." in str(world.messages(1)), "a skill of the plug-in by its own name"
    world.script(Reply(calls=(Call("shell", {"command": "true"}),)), Reply(text="ok"))
    assert world.run("run", "go", "--mode", "yolo", env=usual).code == 6
    assert "not with this plug-in" in world.messages(-1, "tool")[-1]


@pytest.mark.parametrize("written", ["look", "./look", "./plugins/look"])
def test_a_marketplace_with_a_folder_for_its_plugins(world: World, written: str) -> None:
    market = {
        "name": "m",
        "metadata": {"pluginRoot": "./plugins"},
        "plugins": [{"name": "look", "source": written}],
    }
    skill = {"skills/look/SKILL.md": "---\nname: look\ndescription: Look.\n---\nLook.\n"}
    write(world.home / "market" / "plugins" / "look", skill)
    write(world.home / "market", {".claude-plugin/marketplace.json": market})
    add(world, f"{world.home}/market#look")
    assert "brings 1 skill" in world.run("plugin", "show", "look").out
    (world.home / "market" / "plugins").rename(world.home / "elsewhere")
    gone = world.run("plugin", "add", f"{world.home}/market#look")
    assert gone.code == 2 and "there is no folder" in gone.err


def test_no_at_the_question_adds_nothing(world: World) -> None:
    source = write(canary(world), {"skills/look/notes.md": "Read \x1b[2Jme.\n"})
    (source / "dangling").symlink_to("nowhere")
    with Person(world, "plugin", "add", str(source), is_awaited=False) as person:
        person.wait("Add it\\?")
        person.send("v\r")
        person.wait("--- skills/look/notes.md\\s+Read .*me")
        person.wait("(?s)notes.md.*Add it\\?")
        person.nothing_forbidden()
        person.send("\r")
        assert person.finish() == 1
    assert "No plug-in is installed" in world.run("plugin", "list").out and not list(store(world).iterdir())


def test_one_changed_byte_makes_it_inert(world: World) -> None:
    add(world, str(canary(world)))
    for name in ("guard.py", "server.py", "commands/go.md", ".claude-plugin/plugin.json"):
        file = stored(world) / name
        as_it_was = file.read_bytes()
        file.chmod(0o600)
        file.write_bytes(as_it_was + b"\n")
        world.script(shell(), Reply(text="ok"))
        done = world.run("run", "go", "--mode", "yolo")
        assert done.code == 0 and not traces(world)
        assert "the plug-in canary is not used: its files have changed since you agreed to them" in done.err
        assert not any("canary" in json.dumps(body) for body in world.bodies())
        if name != ".claude-plugin/plugin.json":
            file.write_bytes(as_it_was)
            file.chmod(0o444)
    assert "canary  not used" in world.run("plugin", "list").out
    world.script(Reply(text="ok"))
    world.run("run", "/canary:go", "--mode", "yolo")
    assert not traces(world)
    update = world.run("plugin", "update", "canary")
    world.run("plugin", "update", "canary", "--yes-hash", update.err.split()[-1])
    assert "canary  enabled" in world.run("plugin", "list").out


def test_a_hook_whose_files_change_in_a_session_is_not_run_and_refuses(world: World) -> None:
    source = canary(world)
    (source / "guard.py").write_text(
        "import os\nos.chmod(__file__, 0o600)\nopen(__file__, 'a').write('#')\n"
        f"open({str(world.home / 'ran-hook')!r}, 'a').write('x')\n",
        encoding="utf-8",
    )
    add(world, str(source))
    world.script(shell("echo one"), shell("touch made"), Reply(text="ok"))
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 6 and not (world.work / "made").exists()
    assert (world.home / "ran-hook").read_text(encoding="utf-8") == "x"
    assert "the plug-in canary has changed" in done.err


def test_a_skill_whose_plugin_changes_in_a_session_is_not_given(world: World) -> None:
    add(world, str(canary(world)))
    skill = stored(world) / "skills" / "look" / "SKILL.md"
    with Person(world, "--mode", "yolo") as person:
        world.script(Reply(text="ok"))
        person.ask("hello")
        skill.chmod(0o600)
        skill.write_text(skill.read_text(encoding="utf-8") + "Obey.\n", encoding="utf-8")
        person.say("/canary:look")
        person.wait("the plug-in canary has\\s+changed\\s+since")
        person.say("/canary:go")
        person.wait("(?s)/canary:go.*the plug-in canary has\\s+changed")
        person.leave()
    assert but_for_servers(world) <= {"ran-hook"}


def test_a_disabled_plugin_runs_nothing(world: World) -> None:
    add(world, str(canary(world)))
    assert world.run("plugin", "disable", "canary").code == 0
    world.script(shell(), Reply(text="ok"))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    world.script(Reply(text="ok"))
    world.run("run", "/canary:go", "--mode", "yolo")
    assert not traces(world) and "plugin_canary" not in json.dumps(world.bodies())
    assert "canary  disabled" in world.run("plugin", "list").out
    world.run("plugin", "enable", "canary")
    world.script(shell(), Reply(text="ok"))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    assert traces(world) >= {"ran-hook"}


def test_the_model_may_read_its_files_and_neither_change_them_nor_add_plugins(world: World) -> None:
    add(world, str(canary(world)))
    folder = stored(world)
    (world.home / "second").mkdir()
    calls = (
        Call("read_file", {"path": str(folder / "commands" / "go.md")}),
        Call("write_file", {"path": str(folder / "commands" / "new.md"), "content": "x"}),
        Call("shell", {"command": f"echo x > {folder}/new"}),
        Call("shell", {"command": f"rm -r {folder}"}),
        Call("shell", {"command": f"echo {{}} > {folder.parents[2]}/installed.json"}),
        *(
            Call("shell", {"command": f"agent plugin {words}"})
            for words in ("add ./second", "remove canary", "disable canary", "update", "enable canary")
        ),
    )
    for call in calls:
        world.script(Reply(calls=(call,)))
    world.script(Reply(text="ok"))
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 6
    results = world.messages(-1, "tool")
    assert "ran-command" in results[0]
    assert all("approv" in text.lower() or "denied" in text.lower() for text in results[1:]), results
    assert "canary  enabled" in world.run("plugin", "list").out
    refused = world.run("plugin", "remove", "canary", env={"AGENT": "agent-cli"})
    assert refused.code == 2 and "a command that the agent runs may not remove a plug-in" in refused.err


def test_an_update_shows_what_changes_and_open_sessions_keep_what_they_have(world: World) -> None:
    source = canary(world)
    add(world, str(source))
    before = stored(world)
    assert "up to date" in world.run("plugin", "update").out
    with Person(world, "--mode", "yolo") as person:
        (source / "guard.py").write_text("open('hijacked', 'w')\n", encoding="utf-8")
        write(source, {"hooks/hooks.json": hooks(f"{sys.executable} ${{CLAUDE_PLUGIN_ROOT}}/guard.py now")})
        refused = world.run("plugin", "update", "canary")
        assert refused.code == 2 and "needs your confirmation" in refused.err
        assert (
            "    +hook at PreToolUse: runs" in refused.out
            and "    -hook at PreToolUse for Bash: runs" in refused.out
        )
        done = world.run("plugin", "update", "canary", "--yes-hash", refused.err.split()[-1])
        assert done.code == 0 and "Sessions that are open keep the version before" in done.out
        world.script(shell(), Reply(text="ok"))
        person.ask("go")
        assert (
            but_for_servers(world) == {"ran-hook"} and before.is_dir() and not (world.work / "hijacked").exists()
        )
        person.say("/plugins")
        person.wait("1 skill, 1 command, 1 hook, 1 MCP server")
        person.say("/plugin add x")
        person.wait("agent plugin add SOURCE")
        person.leave()
    world.script(shell(), Reply(text="ok"))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    assert (world.work / "hijacked").exists()
    assert world.run("plugin", "remove", "canary").code == 0
    assert not list(store(world).iterdir())


def test_a_plugin_removed_during_a_session_goes_with_it(world: World) -> None:
    add(world, str(canary(world)))
    folder = stored(world)
    with Person(world, "--mode", "yolo") as person:
        world.script(Reply(text="ok"))
        person.ask("hello")
        assert "sessions that use it" in world.run("plugin", "remove", "canary").out and folder.is_dir()
        world.script(shell(), Reply(text="ok"))
        person.ask("go")
        assert but_for_servers(world) == {"ran-hook"}
        person.leave()
    add(world, str(canary(world, "other")))
    assert not folder.exists()


COPIES = 'event == "open" and os.path.basename(str(args[0])).startswith("copied") and args[2] & os.O_WRONLY'


def test_killed_while_adding(world: World) -> None:
    source = canary(world)
    for number in range(30):
        (source / f"copied{number}").write_text(str(number), encoding="utf-8")
    killed = world.start("plugin", "add", str(source), before=killed_at_the_tenth(COPIES))
    assert finish(killed).code == -signal.SIGKILL
    assert 0 < len(list(store(world).glob(".new-*/plugin/copied*"))) < 30, "the copy was not interrupted"
    assert "No plug-in is installed" in world.run("plugin", "list").out
    add(world, str(source))
    assert [path.name for path in store(world).iterdir()] == ["canary"]


@pytest.mark.parametrize(("make", "name"), [(claude, "tools"), (codex, "cx"), (gemini, "gx")])
def test_every_layout_is_added_listed_and_shown(world: World, make: object, name: str) -> None:
    assert callable(make)
    with Commands(world) as agent:
        agree(agent, str(make(world.home / "made")))
        listed = json.loads(agent.run("plugin", "list", "--json").out)
        shown = agent.run("plugin", "show", name).out
        servers = json.loads(agent.run("mcp", "list", "--json").out)["servers"]
    assert [(each["name"], each["state"]) for each in listed["plugins"]] == [(name, "enabled")]
    assert "What would run" in shown and "Not used:" in shown
    assert [each["source"] for each in servers] == [f"plug-in {name}"]
    assert servers[0]["name"].startswith(f"plugin_{name}_") and servers[0]["trusted"]


def git(folder: Path, *arguments: str) -> str:
    command = [
        *"git -c user.name=x -c maintenance.auto=false -c user.email=x@x -c protocol.file.allow=always".split(),
        *arguments,
    ]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def committed(folder: Path) -> Path:
    """A folder as a repository with one commit."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


def test_a_repository_is_fetched_at_a_commit_and_nothing_of_git_runs(world: World) -> None:
    trap = f"touch {world.home}/ran-git"
    template = write(world.home / "template", {"hooks/post-checkout": f"#!/bin/sh\n{trap}\n"})
    (template / "hooks" / "post-checkout").chmod(0o755)
    (world.home / ".gitconfig").write_text(
        f'[init]\ntemplateDir = {template}\n[core]\nhooksPath = {template}/hooks\nfsmonitor = "{trap}"\n'
        f'[filter "x"]\nsmudge = "{trap}"\nrequired = true\n[url "file:///nowhere/"]\ninsteadOf = "file:///"\n',
        encoding="utf-8",
    )
    source = canary(world)
    (source / ".gitattributes").write_text("* filter=x\n", encoding="utf-8")
    repository = committed(source)
    git(repository, "-c", f"core.hooksPath={os.devnull}", "tag", "v1")
    commit = git(repository, "rev-parse", "HEAD")
    (world.home / "ran-git").unlink(missing_ok=True)
    address = f"file://{repository}@v1"
    add(world, address)
    shown = world.run("plugin", "show", "canary").out
    assert f"from: {address} at {commit}" in shown and not traces(world)
    assert not (stored(world) / ".git").exists()
    (repository / "guard.py").write_text("pass\n", encoding="utf-8")
    subprocess.run(["git", "-C", str(repository), "-c", "user.name=x", "-c", "maintenance.auto=false", "-c", "user.email=x@x", "commit", "-qam", "two"],
                   check=True, env={"PATH": os.environ["PATH"]})  # fmt: skip
    assert "up to date" in world.run("plugin", "update").out
    assert not traces(world)


def test_a_branch_is_followed_by_an_update_only(world: World) -> None:
    repository = committed(canary(world))
    add(world, f"file://{repository}")
    before = stored(world)
    (repository / "guard.py").write_text("pass\n", encoding="utf-8")
    git(repository, "commit", "-qam", "two")
    assert stored(world) == before
    refused = world.run("plugin", "update", "canary")
    assert "    +  guard.py (5 bytes" in refused.out and "  1 file changed:\n    ~guard.py" in refused.out
    assert world.run("plugin", "update", "canary", "--yes-hash", refused.err.split()[-1]).code == 0
    assert stored(world) != before and (stored(world) / "guard.py").read_text(encoding="utf-8") == "pass\n"


def market(world: World, folder: str, **sources: object) -> Path:
    entries = [{"name": name, "source": source} for name, source in sources.items()]
    entries += [{"name": "loose", "source": "./", "strict": False, "skills": ["./plugins/one/skills"]}]
    root = world.home / "market"
    return write(root, {f"{folder}/marketplace.json": {"name": "m", "owner": {"name": "x"}, "plugins": entries}})


def test_a_plugin_of_a_marketplace(world: World) -> None:
    far = committed(claude(world.home / "far", name="far"))
    root = market(
        world, ".claude-plugin", one="./plugins/one", far={"source": "url", "url": f"file://{far}"},
        npm={"source": "npm", "package": "x"}, out="../far",
    )  # fmt: skip
    claude(root / "plugins" / "one", name="one")
    committed(root)
    for address in (str(root), f"file://{root}"):
        with Commands(world) as agent:
            for name in ("one", "far", "loose"):
                agree(agent, f"{address}#{name}")
                assert agent.run("plugin", "update", name).code == 0
                assert agent.run("plugin", "remove", name).code == 0
            for name, says in (
                ("npm", "not supported"),
                ("out", "not below it"),
                ("none", "plug-ins are: far, loose"),
            ):
                refused = agent.run("plugin", "add", f"{address}#{name}")
                assert refused.code == 2 and says in refused.err, refused
            hint = agent.run("plugin", "add", address)
        assert (
            hint.code == 2 and "It is a marketplace: write" in hint.err and "far, loose, npm, one, out" in hint.err
        )


def test_hostile_repositories_are_refused_before_they_are_written(world: World, agent: Commands) -> None:
    repository = committed(canary(world))
    blob = git(repository, "rev-parse", "HEAD:guard.py")
    lines = "".join(f"100644 blob {blob}\tf{number}\n" for number in range(10_001))
    made = subprocess.run(
        ["git", "mktree"], cwd=repository, input=lines, capture_output=True, text=True, check=True
    )
    tree = made.stdout.strip()
    commit = git(repository, "commit-tree", "-m", "many", tree)
    git(repository, "branch", "many", commit)
    refused = agent.run("plugin", "add", f"file://{repository}@many")
    assert refused.code == 2 and "more than 10,000 files" in refused.err
    made = subprocess.run(
        ["git", "-c", "core.compression=0", "hash-object", "-w", "--stdin"], cwd=repository, input=bytes(6_000_000), capture_output=True, check=True
    )  # fmt: skip
    blob = made.stdout.decode().strip()
    lines = "".join(f"100644 blob {blob}\tf{number}\n" for number in range(17))
    tree = subprocess.run(["git", "mktree"], cwd=repository, input=lines.encode(), capture_output=True, check=True)
    commit = git(repository, "commit-tree", "-m", "large", tree.stdout.decode().strip())
    git(repository, "branch", "large", commit)
    refused = agent.run("plugin", "add", f"file://{repository}@large")
    assert refused.code == 2 and "larger than 100 MB" in refused.err
    (repository / "out").symlink_to("/etc")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "link")
    refused = agent.run("plugin", "add", f"file://{repository}")
    assert refused.code == 2 and "leads out of the plug-in" in refused.err
    assert agent.run("plugin", "add", f"file://{repository}@nowhere").code == 2
    assert agent.run("plugin", "add", "file:///nowhere").code == 2
    assert not list(store(world).iterdir())


def test_a_hostile_name_and_text_cannot_reach_the_terminal(world: World, agent: Commands) -> None:
    source = canary(world)
    write(source, {"commands/go.md": "Go: !`touch x \x1b[2J\u202e`\n"})
    assert "\x1b" not in agent.run("plugin", "add", str(source)).out
    write(source, {".claude-plugin/plugin.json": {"name": "../x"}})
    refused = agent.run("plugin", "add", str(source))
    assert refused.code == 2 and "not a valid plug-in name" in refused.err
    write(source, {".claude-plugin/plugin.json": {"name": "x", "description": "a\x1b]0;b\x07\u202e"}})
    shown = agent.run("plugin", "add", str(source)).out
    assert "\x1b" not in shown and "\u202e" not in shown


def test_plugins_of_other_agents_are_named_and_not_loaded(world: World) -> None:
    theirs = {
        "cc": canary(world, "cc"),
        "off": canary(world, "off"),
        ".codex/plugins/cache/m/cx/1": codex(world.home / ".codex/plugins/cache/m/cx/1"),
        ".gemini/extensions/gx": gemini(world.home / ".gemini/extensions/gx"),
    }
    installed = {
        f"{name}@m": [{"scope": "user", "installPath": str(theirs[name]), "version": "1"}]
        for name in ("cc", "off")
    }
    write(
        world.home,
        {
            ".claude/plugins/installed_plugins.json": {"version": 2, "plugins": installed},
            ".claude/settings.json": {"enabledPlugins": {"cc@m": True, "off@m": False}},
            ".codex/config.toml": '[plugins."other@m"]\nenabled = false\n',
            ".codex/plugins/cache/m/other/1/skills/a/SKILL.md": "a\n",
        },
    )
    listed = world.run("plugin", "list").out
    assert "Installed in other agents" in listed
    for name in ("cc", ".codex/plugins/cache/m/cx/1", ".gemini/extensions/gx"):
        assert f"agent plugin add {world.home / name}" in listed
    assert f"agent plugin add {theirs['off']}" not in listed and "m/other" not in listed
    world.script(shell(), Reply(text="ok"))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    assert not traces(world) and "plugin_" not in json.dumps(world.bodies())
    add(world, str(theirs["cc"]))
    assert "(Claude Code)" not in world.run("plugin", "list").out


def test_a_project_that_declares_plugins_gets_none_and_one_note(world: World) -> None:
    canary(world).rename(world.work / "canary")
    write(
        world.work,
        {
            ".claude/settings.json": {
                "enabledPlugins": {"canary@here": True},
                "extraKnownMarketplaces": {"here": {"source": {"source": "directory", "path": "."}}},
            },
            ".claude-plugin/marketplace.json": {"plugins": [{"name": "canary", "source": "./canary"}]},
            ".agents/plugins/marketplace.json": {"plugins": []},
        },
    )
    world.script(shell(), Reply(text="ok"))
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 0 and not traces(world)
    assert done.err.count("this project declares plug-ins, which are not used") == 1 and "canary@here" in done.err
    world.script(Reply(text="ok"))
    assert "declares plug-ins" not in world.run("run", "go").err
    assert "Declared by this project, and not used" in world.run("plugin", "list").out


def test_the_doctor_names_plugins_and_what_is_wrong(world: World) -> None:
    add(world, str(canary(world)))
    assert "plug-ins: canary (enabled)" in world.run("doctor").out
    (stored(world) / "guard.py").unlink()
    assert "the plug-in canary is not used" in " ".join(world.run("doctor").out.split())


def test_a_damaged_list_of_plugins_stops_no_session(world: World) -> None:
    add(world, str(canary(world)))
    (store(world).parent / "installed.json").write_text("{", encoding="utf-8")
    world.script(shell(), Reply(text="ok"))
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 0 and "installed.json cannot be read" in done.err and not traces(world)
    assert world.run("plugin", "list").code == 2
