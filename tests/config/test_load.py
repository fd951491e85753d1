"""Layers are put together in one order, and every value knows where it came from."""

from pathlib import Path

import pytest

from agent_cli.config.layer import ConfigError, Layer
from agent_cli.config.load import Loaded, assignment, load, nested
from agent_cli.config.schema import Config
from tests.config.layers import loaded, written
from tests.rows import each_row

MODEL = "model: {}\n"


def test_without_any_source_everything_is_at_its_default(tmp_path: Path) -> None:
    assert load(tmp_path / "none.yaml", environment={}) == Loaded(Config(), ())


def test_each_layer_wins_over_the_one_before(tmp_path: Path) -> None:
    steps = [
        (loaded(tmp_path, MODEL.format("a/user")), "a/user", "user.yaml:1"),
        (loaded(tmp_path, MODEL.format("a/user"), project="\nmodel: a/project"), "a/project", "project.yaml:2"),
        (
            loaded(tmp_path, MODEL.format("a/user"), project="model: a/p", environment={"AGENT_MODEL": "a/env"}),
            "a/env",
            "AGENT_MODEL",
        ),
        (loaded(tmp_path, environment={"AGENT_MODEL": "a/env"}, explicit="model: a/n"), "a/n", "named.yaml:1"),
        (
            loaded(tmp_path, explicit="model: a/named", flags=[nested("--model", "model", "a/flag")]),
            "a/flag",
            "--model",
        ),
    ]
    found = [(it.config.model, it.place("model").replace(f"{tmp_path}/", "")) for it, _, _ in steps]
    assert found == [(model, place) for _, model, place in steps]


def test_a_layer_changes_only_the_keys_it_names(tmp_path: Path) -> None:
    it = loaded(tmp_path, "limits: {turns: 5, cost_usd: 1}", explicit="limits: {cost_usd: 2}")
    assert (it.config.limits.turns, it.config.limits.cost_usd, it.config.limits.time_s) == (5, 2.0, None)
    places = [it.place(f"limits.{key}").replace(f"{tmp_path}/", "") for key in ("turns", "cost_usd", "time_s")]
    assert places == ["user.yaml:1", "named.yaml:1", "built-in default"]


def test_an_ordinary_list_replaces_the_one_before(tmp_path: Path) -> None:
    it = loaded(tmp_path, "tools: {enabled: [shell, grep]}", explicit="tools: {enabled: [grep]}")
    assert it.config.tools.enabled == ("grep",)


def test_rules_add_up_over_all_layers_and_none_can_take_one_away(tmp_path: Path) -> None:
    it = loaded(
        tmp_path,
        "permissions: {deny: [shell(a), shell(b)], allow: [write(x)]}\nrules: [be kind]",
        project="permissions:\n  deny:\n    - shell(c)\n    - shell(a)",
        explicit="permissions: {deny: []}",
        flags=[assignment("permissions.deny=[shell(d)]"), assignment("rules=[be brief]")],
    )
    assert it.config.permissions.deny == ("shell(a)", "shell(b)", "shell(c)", "shell(d)")
    assert it.config.rules == ("be kind", "be brief")


def test_each_rule_of_a_list_knows_its_own_line(tmp_path: Path) -> None:
    it = loaded(
        tmp_path,
        "permissions:\n  deny:\n    - shell(a)\n    - shell(b)\n",
        explicit="permissions: {deny: [shell(c)]}",
        flags=[assignment("permissions.deny=[shell(d)]")],
    )
    rules = [(rule, place.replace(f"{tmp_path}/", "")) for rule, place in it.rules("deny")]
    assert rules == [
        ("shell(a)", "user.yaml:3"),
        ("shell(b)", "user.yaml:4"),
        ("shell(c)", "named.yaml:1"),
        ("shell(d)", "--set permissions.deny"),
    ]
    assert it.place("permissions.deny").replace(f"{tmp_path}/", "") == (
        "user.yaml:2, named.yaml:1, --set permissions.deny"
    )


def test_nested_keys_know_their_lines_even_where_a_name_has_dots(tmp_path: Path) -> None:
    text = "providers:\n  openai:\n    models:\n      gpt-4.1:\n        context_window: 9\n    base_url: http://x/v1\n"
    it = loaded(tmp_path, text)
    keys = ["providers", "openai.base_url", "openai.models.gpt-4.1.context_window", "openai.wire"]
    places = [it.place(key if key == "providers" else f"providers.{key}").rpartition("/")[2] for key in keys]
    assert places == ["user.yaml:1", "user.yaml:6", "user.yaml:5", "built-in default"]


def test_a_value_set_to_null_comes_from_the_layer_that_says_so(tmp_path: Path) -> None:
    it = loaded(tmp_path, "limits: {turns: 5}", explicit="limits:\n  turns: null")
    assert (it.config.limits.turns, it.place("limits.turns")) == (None, f"{tmp_path}/named.yaml:2")


def test_agent_config_names_a_file_and_the_flag_wins_over_it(tmp_path: Path) -> None:
    named = written(tmp_path / "env.yaml", "model: a/env-file")
    environment = {"AGENT_CONFIG": str(named), "AGENT_MODEL": "a/env"}
    assert loaded(tmp_path, environment=environment).config.model == "a/env-file"
    assert loaded(tmp_path, environment=environment, explicit="mode: plan").config.model == "a/env"


@pytest.mark.parametrize("how", ["explicit", "environment"])
def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path, how: str) -> None:
    gone = tmp_path / "gone.yaml"
    with pytest.raises(
        ConfigError, match=r"gone\.yaml: No such file or directory; check (--config|AGENT_CONFIG), which"
    ):
        if how == "explicit":
            load(tmp_path / "none", environment={}, explicit=gone)
        else:
            load(tmp_path / "none", environment={"AGENT_CONFIG": str(gone)})


def test_a_user_file_that_leads_nowhere_is_an_error_and_not_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "user.yaml").symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match=r"user\.yaml: No such file or directory"):
        load(tmp_path / "user.yaml", environment={})


def test_a_file_in_the_place_of_the_folder_is_an_error_and_not_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file is not a folder; set AGENT_CONFIG_DIR"):
        load(tmp_path / "file" / "config.yaml", environment={})
    assert load(tmp_path / "none" / "config.yaml", environment={}).layers == ()


def test_a_variable_with_a_wrong_value_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError) as raised:
        load(Path("/nowhere/config.yaml"), environment={"AGENT_MODE": "fast"})
    expected = "AGENT_MODE: mode: write one of plan, ask, auto-edit, yolo, not 'fast'"
    assert str(raised.value) == expected


def test_empty_variables_do_not_count(tmp_path: Path) -> None:
    empty = {"AGENT_MODE": "", "AGENT_MODEL": "", "AGENT_CONFIG": ""}
    assert load(tmp_path / "none", environment=empty) == Loaded(Config(), ())


@pytest.mark.parametrize(
    ("said", "meant"), [("here", "{}/here"), ("../up", "{}/../up"), ("/abs", "/abs"), ("~/mine", "~/mine")]
)
def test_the_sessions_folder_is_relative_to_the_file_that_says_so(tmp_path: Path, said: str, meant: str) -> None:
    it = load(written(tmp_path / "deep" / "c.yaml", f"sessions: {{dir: {said}}}"), environment={})
    expected = Path(meant.format(tmp_path / "deep")).expanduser()
    assert it.config.sessions.dir == str(expected)


def test_the_sessions_folder_of_a_flag_is_relative_to_where_one_stands(tmp_path: Path) -> None:
    it = load(tmp_path / "none", environment={}, flags=[assignment("sessions.dir=kept")])
    assert it.config.sessions.dir == str(Path.cwd() / "kept")


@each_row(
    ("text", "layer"),
    [
        ("limits.turns=3", Layer("--set limits.turns", {"limits": {"turns": 3}})),
        ("limits.turns=", Layer("--set limits.turns", {"limits": {"turns": None}})),
        (" mode =plan", Layer("--set mode", {"mode": "plan"})),
        ("model=a/b=c", Layer("--set model", {"model": "a/b=c"})),
        ("rules=[a, b]", Layer("--set rules", {"rules": ["a", "b"]})),
        ("permissions.deny=[shell(rm *)]", Layer("--set permissions.deny", {"permissions": {"deny": ["shell(rm *)"]}})),
        ("providers.x={base_url: http://h/v1}", Layer("--set providers.x", {"providers": {"x": {"base_url": "http://h/v1"}}})),
    ],
)  # fmt: skip
def test_set_reads_its_value_as_yaml(text: str, layer: Layer) -> None:
    assert assignment(text) == layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits.turns", "--set limits.turns: write --set key.path=value"),
        ("=3", "--set =3: write --set key.path=value"),
        ("rules=[a", "--set rules=[a: the value is not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("model=2024-99-99", "--set model=2024-99-99: the value is not valid YAML: month must be in 1..12"),
    ],
)
def test_set_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        assignment(text)
    assert str(raised.value).removesuffix(", not 99") == message  # which Python 3.14 adds


@each_row(
    ("text", "message"),
    [
        ("limit.turns=3", "--set limit.turns: unknown key `limit`; did you mean `limits`?"),
        ("\udcff=3", "--set \udcff: '\\udcff' is not UTF-8 text"),
        ("limits.turns=many", "--set limits.turns: write a whole number or null, not the text 'many'"),
        ("permissions.deny=shell", "--set permissions.deny: write a list, not the text 'shell'"),
        ("ui.plain=3", "--set ui.plain: write true or false, not the number 3"),
        ("limits.turns=true", "--set limits.turns: write a whole number or null, not true"),
        ("rules=[a, 3]", "--set rules: rules.1: write text or a mapping of keys to values, not the number 3"),
    ],
)
def test_a_flag_is_held_against_the_schema(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "none", environment={}, flags=[assignment(text)])
    assert str(raised.value) == message


@pytest.mark.parametrize("price", ["-1", ".nan", ".inf", "-.inf"])
def test_a_price_that_is_none_is_refused_with_its_place(tmp_path: Path, price: str) -> None:
    text = f"providers:\n  mine:\n    models:\n      m.1:\n        prices:\n          output: {price}\n"
    with pytest.raises(ConfigError, match=r"user\.yaml:\d+: .*prices\.output: write a number of at (least|most) "):
        loaded(tmp_path, text)
    with pytest.raises(ConfigError, match="prices"):
        loaded(tmp_path, flags=[assignment(f"providers.mine.models.m.prices.input={price}")])
    assert loaded(tmp_path, text.replace(price, "0")).config.providers["mine"].models["m.1"].prices.output == 0


def test_on_is_a_word_where_a_word_is_meant(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("ui: {links: on}", encoding="utf-8")
    assert load(tmp_path / "config.yaml", environment={}).config.ui.links == "on"
    found = load(tmp_path / "config.yaml", environment={}, flags=[assignment("ui.links=off")])
    assert found.config.ui.links == "off"


@pytest.mark.parametrize("text", ["sandbox: off\nui: {notify: off}", "sandbox: 'off'\nui:\n  notify: 'off'"])
def test_off_is_a_word_where_a_word_is_meant(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    found = load(tmp_path / "config.yaml", environment={}, flags=[assignment("sandbox=off")])
    assert (found.config.sandbox, found.config.ui.notify) == ("off", "off")
