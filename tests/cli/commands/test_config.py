"""`agent config` and `agent models`: what holds here, and where it comes from."""

import asyncio
import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from agent_cli.cli.services.listings.settings import flatten
from agent_cli.config.example_file import example
from agent_cli.config.schema import Config
from agent_cli.protocol.usage import LearnedLimits
from agent_cli.store.state.learned_limits import LearnedLimitsFile
from tests.cli.running import Commands, said
from tests.e2e.world import Done, World
from tests.model.side_server import SideServer
from tests.rows import each_row

FRESH = {"AGENT_MODEL": None}


def test_show_tells_every_key_and_that_it_is_at_its_default(world: World) -> None:
    done = world.run("config", "show", env=FRESH)
    assert (done.code, done.err) == (0, "")
    defaults = msgspec.json.decode(msgspec.json.encode(Config()))
    assert done.out.splitlines() == [
        f"{key}: {msgspec.json.encode(value).decode()}    # built-in default" for key, value in flatten(defaults)
    ]


def test_show_and_explain_tell_file_and_line(world: World) -> None:
    file = world.config / "config.yaml"
    file.write_text(
        "mode: plan\nlimits:\n  turns: 7\nproviders:\n  x:\n    models:\n      m-4.1:\n        context_window: 9\n",
        encoding="utf-8",
    )
    shown = world.run("config", "show").out.splitlines()
    for line in (
        f'mode: "plan"    # {file}:1',
        f"limits.turns: 7    # {file}:3",
        f"providers.x.models.m-4.1.context_window: 9    # {file}:8",
        'model: "openai/mock-model"    # AGENT_MODEL',
    ):
        assert line in shown
    explained = world.run("config", "explain", "limits")
    assert explained.code == 0 and explained.err == ""
    assert explained.out.startswith(
        f"limits.turns: 7    # {file}:3\nlimits.cost_usd: null    # built-in default\n"
    )
    assert explained.out.endswith("  `agent config explain limits.turns` tells more of one key\n")
    assert world.run("config", "explain", "mode").out == (
        f'mode: "plan"    # {file}:1\n  default: "ask"\n'
        "  plan, ask, auto-edit or yolo: what may happen without asking.\n"
        "  one of: plan, ask, auto-edit, yolo\n"
    )


def test_explain_tells_value_default_and_meaning_of_every_key(world: World) -> None:
    keys = [key for key, _ in flatten(msgspec.to_builtins(Config()))]
    for key, done in zip(keys, said(world, *(["config", "explain", key] for key in keys)), strict=True):
        assert (done.code, done.err) == (0, ""), key
        first, second, *about = done.out.splitlines()
        assert about, f"{key} has no word of explanation"
        assert first.startswith(f"{key}: ") and second.startswith("  default: ")
        if first.endswith("    # built-in default"):
            assert second == f"  default: {first[len(key) + 2 :].partition('    #')[0]}"


def test_explain_knows_keys_below_names_of_the_users_own(world: World) -> None:
    text = "providers: {x: {models: {m-4.1: {context_window: 9}}}}\ntools: {shell: {env: {A: b}}}\n"
    (world.config / "config.yaml").write_text(text, encoding="utf-8")
    keys = (
        "providers.x.models.m-4.1.context_window",
        "providers.x.models.m-4.1.tools",
        "providers.y.base_url",
        "tools.shell.env.A",
    )
    set_, unset, absent, entry = said(world, *(["config", "explain", key] for key in keys))
    assert set_.out == f"{keys[0]}: 9    # {world.config}/config.yaml:1\n  default: null\n"
    assert unset.out.splitlines()[2].startswith("  Takes tools by itself; false describes them")
    assert absent.out.startswith("providers.y.base_url: null    # built-in default\n  default: null\n  Where ")
    assert entry.out == f'tools.shell.env.A: "b"    # {world.config}/config.yaml:2\n'


@each_row(
    ("key", "hint"),
    [
        ("modle", "did you mean `model`?"),
        ("limits.trns", "did you mean `limits.turns`?"),
        ("turns", "did you mean `limits.turns`?"),
        ("tools.shel.timeout_s", "did you mean `tools.shell.timeout_s`?"),
        ("xyzzy", "`agent config show` lists them all"),
        ("limits.turns.x", "did you mean `limits.turns`?"),
    ],
)
def test_a_key_that_is_none_is_told_with_the_nearest(agent: Commands, key: str, hint: str) -> None:
    assert agent.run("config", "explain", key) == Done(2, "", f"agent: there is no key {key!r}; {hint}\n")


def test_get_prints_a_value_alone(world: World) -> None:
    (world.config / "config.yaml").write_text("limits: {turns: 7}\nui: {theme: dark}\n", encoding="utf-8")
    keys = ("ui.theme", "limits.turns", "permissions.deny", "ui.plain", "providers.x.base_url", "limits", "modle")
    theme, turns, deny, plain, unset, limits, unknown = said(world, *(["config", "get", key] for key in keys))
    assert [done.out for done in (theme, turns, deny, plain, unset)] == [
        "dark\n",
        "7\n",
        "[]\n",
        "false\n",
        "null\n",
    ]
    assert json.loads(limits.out)["turns"] == 7
    assert unknown == Done(2, "", "agent: there is no key 'modle'; did you mean `model`?\n")


def test_set_changes_one_key_and_keeps_comments(world: World) -> None:
    file = world.config / "config.yaml"
    lines = (["ui.theme", "dark"], ["limits.cost_usd", "2.5"], ["ui.plain", "true"], ["ui.theme", "light"])
    for done in said(world, *(["config", "set", *line] for line in lines)):
        assert (done.code, done.err) == (0, "") and str(file) in done.out
    assert file.read_text(encoding="utf-8") == "ui:\n  theme: light\n  plain: true\nlimits:\n  cost_usd: 2.5\n"
    assert file.stat().st_mode & 0o777 == 0o600
    target = world.home / "dotfiles.yaml"
    target.write_text("# mine\nmode: ask  # for now\n", encoding="utf-8")
    file.unlink()
    file.symlink_to(target)
    assert world.run("config", "set", "mode", "plan").code == 0 and file.is_symlink()
    assert target.read_text(encoding="utf-8") == "# mine\nmode: plan  # for now\n"
    elsewhere = world.run("config", "set", "model", "a/b")
    assert elsewhere.code == 0 and "another value counts, from AGENT_MODEL" in elsewhere.err


@each_row(
    ("key", "value", "message"),
    [
        ("modle", "x", "unknown key `modle`; did you mean `model`?"),
        ("limits.turns", "many", "limits.turns: "),
        ("mode", "fast", "plan, ask, auto-edit"),
        ("permissions.deny", "[shel(rm *)]", "'shel(rm *)' is not a rule"),
        ("permissions.allow", "[]", "`agent config edit` opens all of it"),
        ("model", "[", "the value is not valid YAML"),
    ],
)
def test_a_value_that_is_wrong_is_not_written(
    world: World, agent: Commands, key: str, value: str, message: str
) -> None:
    file, text = world.config / "config.yaml", "permissions:\n  allow:\n    - shell(make)\n"
    file.write_text(text, encoding="utf-8")
    done = agent.run("config", "set", key, value)
    assert done.code == 2 and message in done.err and "nothing was written" in done.err
    assert done.err.count("\n") == 1 and file.read_text(encoding="utf-8") == text


def test_a_command_of_the_model_does_not_change_the_configuration(world: World) -> None:
    done = world.run("config", "set", "mode", "yolo", env={"AGENT": "agent-cli"})
    assert done.code == 2 and "may not change its configuration" in done.err
    assert not (world.config / "config.yaml").exists()


def test_a_write_protected_file_is_left_alone(world: World) -> None:
    file = world.config / "config.yaml"
    file.write_text("mode: ask\n", encoding="utf-8")
    file.chmod(0o444)
    done = world.run("config", "set", "mode", "plan")
    assert (done.code, done.err) == (2, f"agent: {file} is write-protected; nothing was written\n")
    assert file.read_text(encoding="utf-8") == "mode: ask\n"


def editor(world: World, script: str) -> dict[str, str | None]:
    """An editor that does what a script says with the file."""
    program = world.home / "editor"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o700)
    return {"VISUAL": str(program), "TMPDIR": str(world.home)}


def test_edit_replaces_the_file_by_one_without_mistakes(world: World) -> None:
    file = world.config / "config.yaml"
    rejected = file.with_name("config.yaml.rejected")
    unchanged = world.run("config", "edit", env=editor(world, "true"))
    assert unchanged == Done(0, "Nothing was changed.\n", "") and not file.exists()
    assert world.run("config", "edit", env=editor(world, 'echo "mode: ask # yet" > "$1"')).code == 0
    assert file.read_text(encoding="utf-8") == "mode: ask # yet\n"
    wrong = world.run("config", "edit", env=editor(world, 'echo "modle: x" >> "$1"'))
    assert (
        wrong.code == 2
        and f"{rejected}:2: unknown key `modle`" in wrong.err
        and "opens your text again" in wrong.err
    )
    assert file.read_text(encoding="utf-8") == "mode: ask # yet\n"
    assert world.run("config", "edit", env=editor(world, 'sed -i s/modle/model/ "$1"')).code == 0
    assert file.read_text(encoding="utf-8") == "mode: ask # yet\nmodel: x\n" and not rejected.exists()


def test_edit_keeps_a_text_that_has_no_place_in_the_configuration_folder(world: World) -> None:
    """As on a full disk: the folder is gone when the editor is left."""
    script = f'echo "mode: plan" > "$1"; rm -r "{world.config}"; touch "{world.config}"'
    done = world.run("config", "edit", env=editor(world, script))
    assert done.code == 2 and "Traceback" not in done.err and "cannot write" in done.err
    (kept,) = world.home.glob("agent-*.yaml")
    assert f"your text is in {kept}" in done.err and kept.read_text(encoding="utf-8") == "mode: plan\n"


def test_edit_repairs_a_file_that_stops_every_other_command(world: World) -> None:
    file = world.config / "config.yaml"
    file.write_text("modle: x\n", encoding="utf-8")
    assert world.run("config", "edit", env=editor(world, 'sed -i s/modle/model/ "$1"')).code == 0
    assert file.read_text(encoding="utf-8") == "model: x\n"
    failed = world.run("config", "edit", env=editor(world, "exit 3"))
    assert failed.code == 2 and "exited with code 3" in failed.err


def test_path_tells_the_three_places(world: World) -> None:
    expected = (
        f"configuration: {world.config / 'config.yaml'}\nstate:         {world.state}\n"
        f"sessions:      {world.state / 'sessions'}\n"
    )
    assert world.run("config", "path") == Done(0, expected, "")
    assert not world.state.exists(), "asking leaves nothing behind"


def test_init_writes_the_example_for_its_owner_and_never_over_another_file(world: World) -> None:
    file = world.config / "deep" / "config.yaml"
    env = {"AGENT_CONFIG_DIR": str(file.parent)}
    assert world.run("config", "init", env=env) == Done(0, f"Wrote {file}\n", "")
    assert (file.read_text(encoding="utf-8"), file.stat().st_mode & 0o777) == (example(), 0o600)
    file.write_text("mode: plan\n", encoding="utf-8")
    assert world.run("config", "init", env=env) == Done(2, "", f"agent: {file} exists already; edit it\n")
    assert file.read_text(encoding="utf-8") == "mode: plan\n"


def test_init_into_a_place_that_cannot_be_is_one_line(world: World) -> None:
    (world.home / "file").write_text("", encoding="utf-8")
    done = world.run("config", "init", env={"AGENT_CONFIG_DIR": str(world.home / "file" / "x")})
    assert done == Done(2, "", f"agent: cannot write {world.home}/file/x/config.yaml: Not a directory\n")


def test_the_schema_takes_the_example_and_refuses_an_unknown_key(world: World) -> None:
    schema = json.loads(world.run("config", "schema").out)
    jsonschema.validate(msgspec.json.decode(msgspec.json.encode(Config())), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"modle": "x"}, schema)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode: ask\nmodle: x", "2: unknown key `modle`; did you mean `model`?"),
        (
            "permissions:\n  deny:\n    - shel(rm *)",
            "3: 'shel(rm *)' is not a rule; write NAME or NAME(PATTERN) with NAME one of shell, outside, "
            "read, write, fetch, mcp; did you mean `shell(...)`?",
        ),
    ],
    ids=["key", "rule"],
)
def test_a_wrong_configuration_stops_every_command(world: World, text: str, message: str) -> None:
    file = world.config / "config.yaml"
    file.write_text(text, encoding="utf-8")
    commands = ("run x", "config show", "sessions list", "undo", "doctor", "permissions list")
    ends = said(world, *(command.split() for command in commands))
    assert ends == [Done(2, "", f"agent: {file}:{message}\n")] * len(commands)
    assert world.bodies() == []


def test_a_project_file_is_ignored_until_it_is_trusted(world: World) -> None:
    project(world, "mode: plan\n")
    assert 'mode: "ask"    # built-in default' in world.run("config", "show").out.splitlines()
    assert "the project's own file is ignored until you trust it" in world.run("doctor").out


def test_show_tells_what_a_trusted_project_file_says_in_vain(world: World) -> None:
    file = project(world, "permissions:\n  allow: [shell]\n  deny: [shell(make *)]\nproviders: {}\n")
    trust(world, file)
    shown = world.run("config", "show").out.splitlines()
    assert [line for line in shown if line.startswith("# ignored")] == [
        f"# ignored: permissions.allow    # {file}:2: not allowed in a project file",
        f"# ignored: providers    # {file}:4: not allowed in a project file",
    ]
    assert f'permissions.deny: ["shell(make *)"]    # {file}:3' in shown
    assert "ignored in the project's own file: permissions.allow, providers" in world.run("doctor").out
    file.write_text(file.read_text(encoding="utf-8") + "mode: plan\n", encoding="utf-8")
    assert "built-in default" in world.run("config", "explain", "permissions.deny").out, (
        "changed: no longer trusted"
    )


def test_models_are_found_by_a_part_of_the_name(world: World) -> None:
    heading, *lines = world.run("models", "claude-sonnet-4").out.splitlines()
    assert heading.split() == [
        "model",
        "window",
        "answer",
        "$",
        "in",
        "$",
        "out",
        "$",
        "cached",
        "takes",
        "(source)",
    ]
    assert lines and all("claude-sonnet-4" in line.split()[0] and line.endswith("(catalogue)") for line in lines)
    cells = next(line.split() for line in lines if line.startswith("anthropic/claude-sonnet-4-6 "))
    assert cells[1:6] == ["1M", "128k", "3", "15", "0.3"]
    assert {line.index(line.split()[5]) + len(line.split()[5]) for line in lines} == {
        heading.index("$ cached") + 8
    }
    assert len(world.run("models").out.splitlines()) > len(lines)


def test_every_figure_of_a_model_has_its_source(world: World) -> None:
    (world.config / "config.yaml").write_text(
        "providers:\n  openai:\n    models:\n      gpt-5.6: {context_window: 9000, prices: {input: 7}}\n",
        encoding="utf-8",
    )
    env = {"OPENAI_API_KEY": "k"}
    line = next(line for line in world.run("models", "openai gpt-5.6", env=env).out.splitlines() if "9k" in line)
    shown = " ".join(line.split())
    assert "9k [configuration] 128k 7 [configuration] 20 0.4 tools" in shown
    assert "price rises above 272k" in line and "tools, images, reasoning" in line and line.endswith("(catalogue)")
    entries = json.loads(world.run("models", "openai/gpt-5.6", "--json", env=env).out)
    model = next(each for each in entries if each["name"] == "openai/gpt-5.6")
    assert (model["context_window"], model["sources"]["context_window"]) == (9000, "configuration")
    assert (model["prices"]["output"], model["sources"]["output"]) == (20, "catalogue")
    assert model["prices"]["long"][0] == {
        "above": 272000,  # its input is not the catalogue's to say
        "output": 30,
        "cache_read": 0.8,
        "cache_write": 10,
    }
    assert model["images"] is True and model["offered"] is False


async def test_models_of_servers_that_answer_are_listed_with_what_was_learnt(world: World) -> None:
    show = {"model_info": {"q.context_length": 40_960}, "capabilities": ["completion", "tools"]}
    answers = {"/v1/models": {"data": [{"id": "qwen3:8b"}, {"id": "nomic-embed-text"}]}, "/api/show": show}
    LearnedLimitsFile(world.state / "learnt.json").learn(
        "mine/big http://127.0.0.1:9/v1", LearnedLimits(context_window=12_345, refused=("images",))
    )
    (world.config / "config.yaml").write_text(
        "providers:\n  mine:\n    base_url: http://127.0.0.1:9/v1\n", encoding="utf-8"
    )
    async with SideServer(answers) as server:
        env = {"OLLAMA_HOST": f"127.0.0.1:{server.port}"}
        out = (await asyncio.to_thread(world.run, "models", env=env)).out.splitlines()
    ollama = next(line for line in out if line.startswith("ollama/"))
    assert " ".join(ollama.split()) == ("ollama/qwen3:8b 32,768 ? ? ? ? tools, no images, no reasoning (server)")
    mine = next(line for line in out if line.startswith("mine/"))
    assert "12,345" in mine and "refuses images [learned]" in mine
    assert "nomic" not in "".join(out)
    assert world.run("models", "mine/", "--forget").out == "forgotten: mine/big http://127.0.0.1:9/v1\n"
    assert "mine/" not in world.run("models").out


def test_a_model_that_is_not_known_is_said(world: World) -> None:
    expected = "no known model has 'zzz' in its name; any name that your provider knows can be used\n"
    assert world.run("models", "zzz") == Done(0, expected, "")


def project(world: World, text: str) -> Path:
    file = world.work / ".agent" / "config.yaml"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    return file


def trust(world: World, file: Path) -> None:
    from agent_cli.config.trust import Trust

    Trust(world.state / "trust.json").remember(str(file), file.read_bytes())


CREDENTIALS = """providers:
  mine:
    base_url: http://user:hunter2-pw@gateway.example/v1
    headers: {Authorization: Bearer abc-terces-1, X-Api-Key: k-terces-2, Cookie: "sid=terces-3"}
  token: {base_url: "https://terces-4@gateway.example/v1"}
tools: {shell: {env: {DEPLOY_TOKEN: terces-5, EDITOR: vi}}}
"""


def test_credentials_in_the_configuration_are_masked_wherever_it_is_shown(world: World) -> None:
    (world.config / "config.yaml").write_text(CREDENTIALS, encoding="utf-8")
    keys = ("providers", "providers.mine.headers", "providers.mine.base_url", "providers.token", "tools.shell.env")
    ends = said(world, ["config", "show"], *(["config", "explain", key] for key in keys))
    for done in ends:
        assert done.code == 0 and "terces" not in done.out and "hunter2" not in done.out, done.out
    assert 'providers.mine.base_url: "http://[masked]@gateway.example/v1"' in ends[0].out
    assert 'tools.shell.env.EDITOR: "vi"' in ends[0].out and ends[0].out.count("[masked]") >= 6
