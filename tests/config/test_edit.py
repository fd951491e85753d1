"""One key is set in the text of a configuration file, and nothing else changes."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config.edit import CannotEdit, remove_key, set_key, set_value
from agent_cli.config.layer import ConfigError
from tests.fuzz import tries
from tests.rows import each_row

PATH = Path("/config/config.yaml")
FILE = """# My settings.
model: openai/gpt-5  # the large one

ui:
  theme: dark   # at night
  # plain: true

# What it may cost.
limits: {turns: 50, cost_usd: 2}
permissions:
  allow:
    - shell(git diff *)  # only reads
  deny: []
sandbox:
# the end
"""


@each_row(
    ("key", "value", "old", "new"),
    [
        ("model", "a/b", "model: openai/gpt-5  #", "model: a/b  #"),
        ("ui.theme", "light", "theme: dark   #", "theme: light   #"),
        ("ui.vi_mode", "true", "dark   # at night\n", "dark   # at night\n  vi_mode: true\n"),
        ("limits.turns", "7", "{turns: 50,", "{turns: 7,"),
        ("limits.time_s", "9", "cost_usd: 2}", "cost_usd: 2, time_s: 9}"),
        ("permissions.deny", "[shell(rm *)]", "deny: []", "deny: [shell(rm *)]"),
        ("permissions.ask", "['read(**/x)']", "  deny: []\n", "  deny: []\n  ask: ['read(**/x)']\n"),
        ("sandbox", "off", "sandbox:\n", "sandbox: off\n"),
        ("mode", "plan", "sandbox:\n", "sandbox:\nmode: plan\n"),
        ("tools.shell.timeout_s", "60", "sandbox:\n", "sandbox:\ntools:\n  shell:\n    timeout_s: 60\n"),
        ("model", "null", "model: openai/gpt-5  #", "model: null  #"),
        ("model", "x # y", "model: openai/gpt-5  #", "model: x  #"),
    ],
)
def test_one_place_of_the_text_changes(key: str, value: str, old: str, new: str) -> None:
    assert FILE.count(old) == 1 and set_key(FILE, key, value, PATH) == FILE.replace(old, new)


@each_row(
    ("text", "key", "value", "result"),
    [
        ("", "mode", "plan", "mode: plan\n"),
        ("# nothing yet", "ui.theme", "dark", "# nothing yet\nui:\n  theme: dark\n"),
        ("mode: ask", "model", "a/b", "mode: ask\nmodel: a/b\n"),
        ("mode: ask\r\n", "ui.theme", "dark", "mode: ask\r\nui:\r\n  theme: dark\r\n"),
        ("ui:\n", "ui.theme", "dark", "ui: {theme: dark}\n"),
        ("{mode: ask}\n", "model", "a/b", "{mode: ask, model: a/b}\n"),
        ("{}\n", "ui.theme", "dark", "{ui: {theme: dark}}\n"),
        ("ui:\n    theme: dark\nmode: ask\n", "ui.plain", "true", "ui:\n    theme: dark\n    plain: true\nmode: ask\n"),
        ("providers:\n  x:\n    models:\n      m-4.1: {}\n", "providers.x.models.m-4.1.tools", "false",
         "providers:\n  x:\n    models:\n      m-4.1: {tools: false}\n"),
        ("model: |\n  a\nmode: ask\n", "effort", "low", "model: |\n  a\nmode: ask\neffort: low\n"),
        ("hooks:\n  a: |\n    x\n\n# end\n", "hooks.b", "1", "hooks:\n  a: |\n    x\n\n  b: 1\n# end\n"),
        ("\ufeffmode: ask\n", "mode", "plan", "\ufeffmode: plan\n"),
        ("model: ünï ✓\nmode: ask # ✓\n", "mode", "plan", "model: ünï ✓\nmode: plan # ✓\n"),
    ],
)  # fmt: skip
def test_a_key_finds_its_place(text: str, key: str, value: str, result: str) -> None:
    assert set_key(text, key, value, PATH) == result


@each_row(
    ("text", "key"),
    [
        ("permissions:\n  allow:\n    - a\n", "permissions.allow"),
        ("a: &x {b: 1}\nc: *x\n", "c.b"),
        ("a: &x {b: 1}\nc: *x\n", "a.b"),
        ("model: |\n  long\n  text\n", "model"),
        ("model: a\n", "model.x"),
        ("- a\n", "mode"),
        ("mode: [\n", "mode"),
    ],
)
def test_what_cannot_be_set_by_itself_is_refused(text: str, key: str) -> None:
    with pytest.raises(ConfigError):
        set_key(text, key, "2", PATH)


def test_a_refusal_says_what_to_do() -> None:
    with pytest.raises(CannotEdit, match="`agent config edit` opens all of it"):
        set_key("permissions:\n  allow:\n    - a\n", "permissions.allow", "[]", PATH)


KEYS = st.sampled_from(["a", "b", "c.d", "é", "x y", "on", "1"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=tries(300), deadline=None)
@given(
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
    VALUES,
    st.booleans(),
)
def test_whatever_the_file_one_value_changes_or_nothing(
    before: dict[str, object], names: list[str], value: object, in_one_line: bool
) -> None:
    text = yaml.safe_dump(before, allow_unicode=True, default_flow_style=in_one_line) if before else ""
    written = yaml.safe_dump([value], default_flow_style=True, width=10_000).strip()[1:-1]
    try:
        changed = yaml.safe_load(set_key(text, ".".join(names), written, PATH))
    except ConfigError:
        return
    inner = changed
    for name in names:
        inner = inner[name]
    assert inner == value
    there = yaml.safe_load(text) if text else {}
    assert changed | {names[0]: 0} == there | {names[0]: 0}


SERVERS = """# My servers.
model: a/b
mcp_servers:  # started when needed
  # the tracker
  tickets:
    command: npx  # from the registry
    args: [-y, tickets]
    env:
      TOKEN: ${TOKEN}
  # the wiki
  wiki.v2: {url: https://wiki.example/mcp}

# What it may cost.
limits: {turns: 50, cost_usd: 2}
"""


@each_row(
    ("names", "gone"),
    [
        (
            ["mcp_servers", "tickets"],
            "  tickets:\n    command: npx  # from the registry\n    args: [-y, tickets]\n    env:\n      TOKEN: ${TOKEN}\n",
        ),
        (["mcp_servers", "tickets", "command"], "    command: npx  # from the registry\n"),
        (["mcp_servers", "tickets", "env", "TOKEN"], "    env:\n      TOKEN: ${TOKEN}\n"),
        (["mcp_servers", "wiki.v2"], "  wiki.v2: {url: https://wiki.example/mcp}\n"),
        (["model"], "model: a/b\n"),
        (["limits"], "limits: {turns: 50, cost_usd: 2}\n"),
        (["limits", "turns"], "turns: 50, "),
        (["limits", "cost_usd"], ", cost_usd: 2"),
    ],
)
def test_a_key_is_removed_and_all_else_stays(names: list[str], gone: str) -> None:
    assert SERVERS.count(gone) == 1 and remove_key(SERVERS, names, PATH) == SERVERS.replace(gone, "")


@each_row(
    ("text", "names", "result"),
    [
        ("m: {a: {b: 1}, c: {b: 2}}\n", ["m", "a"], "m: {c: {b: 2}}\n"),
        ("m: {a: {b: 1}, c: {b: 2}}\n", ["m", "c"], "m: {a: {b: 1}}\n"),
        ("m: {a: {b: 1}}\nx: 1\n", ["m", "a"], "x: 1\n"),
        ("m:\n  a:\n    b: 1\n", ["m", "a"], ""),
        ("m:\n  a:\n    b: 1", ["m", "a"], ""),
        ("m:\r\n  a: 1\r\n  b: 2\r\n", ["m", "a"], "m:\r\n  b: 2\r\n"),
        ("m:\n  'a': 1\n  b: 2\n", ["m", "a"], "m:\n  b: 2\n"),
        ("m:\n  a:\n  b: 2\n", ["m", "a"], "m:\n  b: 2\n"),
        ("m:\n  a: |\n    x\n\n    y\n  b: 2\n", ["m", "a"], "m:\n  b: 2\n"),
        ('{"m": {\n  "a": {},\n  "b": 1\n}}\n', ["m", "a"], '{"m": {\n  "b": 1\n}}\n'),
        ('{"m": {\n  "a": {},\n  "b": 1\n}}\n', ["m", "b"], '{"m": {\n  "a": {}\n}}\n'),
        ("m: {a: 1, b: 2,}\n", ["m", "b"], "m: {a: 1,}\n"),
    ],
)
def test_a_key_is_removed_however_it_is_written(text: str, names: list[str], result: str) -> None:
    assert remove_key(text, names, PATH) == result


@each_row(
    ("text", "names"),
    [
        ("m:\n  a: &x {c: 1}\n  b: *x\n", ["m", "a"]),
        ("base: &x {a: 1}\nm:\n  <<: *x\n  b: 2\n", ["m", "a"]),
        ("m: {a: 1}\n", ["m", "b"]),
        ("m: {a: 1}\n", ["a"]),
        ("m: {a: 1}\n", ["m", "a", "b"]),
        ("{m: {a: 1}}\n", ["m", "a"]),
        ("m: {a: 1, # one\n  b: 2}\n", ["m", "a"]),
        ("m: [\n", ["m"]),
        ("", ["m"]),
    ],
)
def test_what_cannot_be_removed_by_itself_is_refused(text: str, names: list[str]) -> None:
    with pytest.raises(ConfigError):
        remove_key(text, names, PATH)


def test_a_refusal_to_remove_says_what_to_do() -> None:
    with pytest.raises(CannotEdit, match="`agent config edit` opens all of it"):
        remove_key("m:\n  a: &x {c: 1}\n  b: *x\n", ["m", "a"], PATH)


@settings(max_examples=tries(300), deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.lists(KEYS, min_size=1, max_size=3), st.booleans())
def test_whatever_the_file_one_key_goes_or_nothing(
    before: dict[str, object], names: list[str], in_one_line: bool
) -> None:
    text = yaml.safe_dump(before, allow_unicode=True, default_flow_style=in_one_line) if before else ""
    before = yaml.safe_load(text) or {}  # not all that it writes does it read as it was
    try:
        changed = yaml.safe_load(remove_key(text, names, PATH)) or {}
    except ConfigError:
        return
    inner = changed
    for name in names[:-1]:
        inner = inner.get(name, {})
    assert names[-1] not in inner
    assert {**before, names[0]: 0} == {**changed, names[0]: 0}


def test_a_value_is_set_below_a_name_with_dots() -> None:
    names = ["mcp_servers", "wiki.v2"]
    text = set_value("model: a/b  # mine\n", names, {"command": "npx", "args": ["-y", "${X}"]}, PATH)
    assert text == "model: a/b  # mine\nmcp_servers:\n  wiki.v2: {command: npx, args: [-y, '${X}']}\n"
    assert set_value(text, names, {"url": "y"}, PATH) == "model: a/b  # mine\nmcp_servers:\n  wiki.v2: {url: y}\n"


def test_a_value_of_several_lines_that_yaml_would_join_is_refused() -> None:
    with pytest.raises(ConfigError, match="model: YAML would join the lines of this value"):
        set_key(FILE, "model", "a\nb", PATH)
    assert yaml.safe_load(set_key(FILE, "permissions.deny", "- read(a)\n- read(b)", PATH))["permissions"]["deny"]
