"""What the prose says in backticks is there: options, sub-commands, slash commands, configuration keys, rules,
variables; and the blocks of YAML, JSON and Python can be read as what they are."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from agent_cli.cli.app import assemble
from agent_cli.config.api_keys import read_key_file
from agent_cli.config.schema import Config
from agent_cli.config.yaml_file import load_yaml
from agent_cli.model.types.provider_table import PROVIDERS
from agent_cli.policy.rules.rule import Effect, Kind, parse_rule
from agent_cli.tools.registry import built_in
from agent_cli.ui.commands.registry import ANSWERS, OTHER_NAMES, TABLE
from agent_cli.ui.headless.runner import RunResult
from tests.cli.running import said
from tests.docs.pages import PAGES, Block, blocks, spans
from tests.e2e.world import World
from tests.rows import each_row

OF_OTHERS = {
    "--jinja": "llama.cpp",
    "--enable-auto-tool-choice": "vLLM",
    "--tool-call-parser": "vLLM",
    "--compile-bytecode": "uv",
    "--hard": "git",
    "--nthreads": "Dask",
    "--dashboard-address": "Dask",
    "--protocol": "Dask",
    "--tls-ca-file": "Dask",
    "--tls-cert": "Dask",
    "--tls-key": "Dask",
}
"""Options of other programs."""
NO_COMMANDS = {"/tmp", "/props", "/more"}
"""What begins with a slash and is not in the table: places, and what only plain lines have."""
VARIABLES = {
    "AGENT",
    "AGENT_MODEL",
    "AGENT_MODE",
    "AGENT_CONFIG",
    "AGENT_CONFIG_DIR",
    "AGENT_STATE_DIR",
    "AGENT_OTEL",
}
_TOP = {field.name for field in msgspec.structs.fields(Config)}
_KIND = "|".join(get_args(Kind))


def options(command: Any) -> set[str]:
    """The names of a command's options."""
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}


def commands(group: Any) -> Iterator[Any]:
    """A command and all below it."""
    yield group
    for each in getattr(group, "commands", {}).values():
        yield from commands(each)


def wrong_in(line: str, program: Any) -> str:
    """What of a command line does not exist; empty when all does. Words that stand for something are passed over."""
    at, prompt = program, False
    for word in shlex.split(line.replace("…", ""))[1:]:
        name = word.partition("=")[0]
        if name.startswith("-") and len(name) > 1:
            if name not in options(at):
                return name
        elif not prompt and word in getattr(at, "commands", {}):
            at = at.commands[word]
        elif at is not program and hasattr(at, "commands"):
            return word
        else:
            prompt = True
    return ""


def test_command_lines_in_the_prose_exist() -> None:
    program = assemble()
    lines = [word for word in spans() if re.match(r"agent( |$)", word.text)]
    wrong = [f"{word.place}: {word.text}" for word in lines if wrong_in(word.text, program)]
    assert wrong == [] and len(lines) > 20


@each_row(
    ("line", "wrong"),
    [
        ("agent sessions lst", "lst"),
        ("agent --modl x", "--modl"),
        ("agent undo --to 3 --nope", "--nope"),
        ("agent sessions prune --days 7", ""),
        ('agent "fix it"', ""),
        ("agent run TASK", ""),
    ],
)
def test_what_does_not_exist_is_found(line: str, wrong: str) -> None:
    assert wrong_in(line, assemble()) == wrong


def test_options_in_the_prose_exist() -> None:
    known = {name for command in commands(assemble()) for name in options(command)} | OF_OTHERS.keys()
    named = [(word.place, name) for word in spans() for name in re.findall(r"(?<![\w-])--[a-z][\w-]*", word.text)]
    assert [each for each in named if each[1] not in known] == [] and named
    assert OF_OTHERS.keys() <= {name for _, name in named}, "an exception that nothing needs"


def test_slash_commands_in_the_prose_exist() -> None:
    named = [
        (word.place, found[1]) for word in spans() if (found := re.fullmatch(r"(/[a-z]+)(?: [^/]*)?", word.text))
    ]
    known = {f"/{name}" for name in (*TABLE, *OTHER_NAMES, *ANSWERS)} | NO_COMMANDS
    assert [each for each in named if each[1] not in known] == [] and named


def test_configuration_keys_in_the_prose_exist(world: World) -> None:
    named = [
        word
        for word in spans()
        if re.fullmatch(r"[a-z_]+(\.[\w-]+)+", word.text) and word.text.split(".")[0] in _TOP
    ]
    told = said(world, *(["config", "explain", word.text] for word in named))
    assert [f"{word.place}: {word.text}" for word, done in zip(named, told, strict=True) if done.code] == []
    assert named


def test_rules_in_the_prose_can_be_read() -> None:
    named = [word for word in spans() if re.match(rf"({_KIND})\(", word.text)]
    for word in named:
        for rule in re.findall(rf"(?:{_KIND})\(.*?\)(?=$|, |`)", word.text):
            parse_rule(rule, "allow", word.place)
    assert named


def test_variables_in_the_prose_exist() -> None:
    ours = {each for spec in PROVIDERS.values() for each in (*spec.key_vars, *spec.base_url_vars)}
    ours |= VARIABLES | {"BRAVE_API_KEY", "TAVILY_API_KEY", "EXA_API_KEY", "MINE_API_KEY"}
    shape = r"\b(?:AGENT(?:_[A-Z_]+)?|[A-Z_]+_(?:API_KEY|API_BASE|BASE_URL))\b"
    named = [(word.place, name) for word in spans() for name in re.findall(shape, word.text)]
    assert [each for each in named if each[1] not in ours] == [] and named


def test_every_tool_of_the_program_is_on_its_page() -> None:
    page = (PAGES[0].parent / "docs" / "tools.md").read_text(encoding="utf-8")
    assert [tool.name for tool in built_in() if f"`{tool.name}`" not in page] == []


CONFIGURATION, KEYS, OTHER = "configuration", "keys", "of others"
KINDS = {"ANTHROPIC_API_KEY: sk-ant-…": KEYS, "jobs:": OTHER, "apiVersion: kubernetes.dask.org/v1": OTHER}
"""By the first line: blocks of YAML that are no configuration."""


def kind(block: Block) -> str:
    return KINDS.get(block.first, CONFIGURATION)


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.place)
def test_yaml_can_be_read_as_what_it_is(block: Block, world: World) -> None:
    if kind(block) == OTHER:
        load_yaml(block.text, Path(block.place))
    elif kind(block) == KEYS:
        file = world.config / "keys.yaml"
        file.write_text(block.text.replace("…", "0"), encoding="utf-8")
        file.chmod(0o600)
        assert read_key_file(file).values
    else:
        (world.config / "config.yaml").write_text(block.text, encoding="utf-8")
        done = world.run("config", "show", env={"AGENT_MODEL": None})
        assert (done.code, done.err) == (0, ""), block.place
        assert f"# {world.config}/config.yaml:" in done.out


def rules(block: Block) -> list[tuple[Effect, str]]:
    """The permission rules of a block of configuration."""
    values, _ = load_yaml(block.text, Path(block.place))
    shown = values.get("permissions", {})
    return [(effect, rule) for effect in get_args(Effect) for rule in shown.get(effect, ())]


RULED = [block for block in blocks("yaml") if kind(block) == CONFIGURATION and rules(block)]
VERDICTS: dict[Effect, str] = {"allow": "allowed", "ask": "asked", "deny": "denied"}


def sample(rule: str) -> list[str]:
    """What to ask about so that a rule decides."""
    name, _, pattern = rule.removesuffix(")").partition("(")
    if name == "shell":
        return [pattern.replace("*", "x")]
    return [f"--{name}", pattern.replace("**/", "a/").replace("**", "x")]


@pytest.mark.parametrize("block", RULED, ids=lambda block: block.place)
def test_the_rules_that_are_shown_decide(block: Block, world: World) -> None:
    (world.config / "config.yaml").write_text(block.text, encoding="utf-8")
    told = said(world, *(["permissions", "explain", "--mode", "ask", *sample(rule)] for _, rule in rules(block)))
    for (effect, rule), done in zip(rules(block), told, strict=True):
        assert done.out.startswith(f"{VERDICTS[effect]}: "), f"{block.place}: {rule}: {done}"
        assert f"{effect} {rule} ({world.config}/config.yaml:" in done.out


@pytest.mark.parametrize("block", blocks("json"), ids=lambda block: block.place)
def test_json_is_a_result_with_every_field(block: Block) -> None:
    msgspec.convert(json.loads(block.text), RunResult)
    assert json.loads(block.text).keys() == {"type", *RunResult.__struct_fields__}


@each_row("block", blocks("python"))
def test_python_can_be_read(block: Block) -> None:
    assert ast.parse(block.text).body


def test_the_keys_of_the_keyboard_that_are_named_do_something() -> None:
    source = (PAGES[0].parent / "agent_cli" / "ui" / "repl" / "keys.py").read_text(encoding="utf-8")
    bound = {key.upper() for key in re.findall(r'"c-([a-z])"', source)}
    named = set(re.findall(r"Ctrl-([A-Z])\b", "".join(page.read_text(encoding="utf-8") for page in PAGES)))
    assert named - bound <= set("RZAEKUWPN"), "keys of every line editor"
    assert bound <= named, "a key that no page names"
