"""`config.example.yaml` is the schema, told with every default."""

from pathlib import Path

import msgspec

from agent_cli.config.example_file import example
from agent_cli.config.load import load
from agent_cli.config.schema import Config
from agent_cli.config.yaml_file import read_file

FILE = Path(__file__).parents[2] / "config.example.yaml"


def test_the_example_is_what_the_schema_makes_of_it() -> None:
    assert FILE.read_bytes() == example().encode(), "write it anew with `agent config init`"


def test_the_example_says_exactly_the_defaults() -> None:
    assert load(FILE, environment={}).config == Config()
    assert read_file(FILE).values == msgspec.json.decode(msgspec.json.encode(Config()))


def test_every_key_of_the_example_has_its_words() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    top = [number for number, line in enumerate(lines) if line[:1].isalpha()]
    assert [lines[number].partition(":")[0] for number in top] == [f.name for f in msgspec.structs.fields(Config)]
    assert [lines[number] for number in top if not lines[number - 1].startswith("#")] == []
