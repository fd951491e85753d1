"""`agent config`: show the effective configuration and its sources, and change it."""

import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import msgspec.inspect
import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.redactor import redactor_of
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.dirs import config_dir
from agent_cli.config.edit import set_key
from agent_cli.config.example_file import example, words
from agent_cli.config.layer import ConfigError, nearest
from agent_cli.config.schema import Config
from agent_cli.fs.files import create_file, make_private, replace_file
from agent_cli.protocol.json_text import decode_json
from agent_cli.ui.repl.editor import Editor

from ..services.completion import config_keys
from ..services.config_file import rewrite, text_of
from ..services.listings.settings import flatten, shown_value
from .sessions.output import print_json

config = typer.Typer(help="Show and change the configuration.", no_args_is_help=True)


@config.command()
def show() -> int:
    """List every key with its effective value and where it is set."""
    setup = Setup()
    redactor = redactor_of(setup)
    for key, value in flatten(msgspec.to_builtins(setup.config)):
        print(f"{key}: {shown_value(key, value, redactor)}    # {setup.loaded.place(key)}")
    for key, place in setup.loaded.ignored:
        print(f"# ignored: {key}    # {place}: not allowed in a project file")
    return 0


@config.command()
def path() -> int:
    """Print where configuration and state are stored."""
    setup = Setup()
    print(f"configuration: {setup.config_dir / 'config.yaml'}")
    print(f"state:         {setup.state}")
    print(f"sessions:      {setup.sessions.folder}")
    return 0


@config.command()
def explain(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="For example limits.turns, or limits.", autocompletion=config_keys)
    ],
) -> int:
    """Explain one key: its value, where it is set, its default and its meaning."""
    setup = Setup()
    found, known = _looked_up(setup, key)
    redactor = redactor_of(setup)
    for name, value in (found or {key: known and known.default}).items():
        print(f"{name}: {shown_value(name, value, redactor)}    # {setup.loaded.place(name)}")
    if known is not None:
        print("\n".join(_described(key, known)))
    return 0


@config.command()
def get(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="For example model, or limits.", autocompletion=config_keys)
    ],
) -> int:
    """Print only the effective value of a key: text as it is, everything else as JSON."""
    setup = Setup()
    found, _ = _looked_up(setup, key)
    redactor = redactor_of(setup)
    shown = {name: decode_json(shown_value(name, value, redactor)) for name, value in found.items()}
    if key in shown or not shown:
        value = shown.get(key)
    else:
        value = {name.removeprefix(f"{key}."): each for name, each in shown.items()}
    print(value if isinstance(value, str) else _json(value))
    return 0


def _looked_up(setup: Setup, key: str) -> "tuple[dict[str, Any], _Known | None]":
    """Return the effective values at and below a key, and its entry in the schema."""
    values = dict(flatten(msgspec.to_builtins(setup.config)))
    found = {name: value for name, value in values.items() if name == key or name.startswith(f"{key}.")}
    known = _known(msgspec.inspect.type_info(Config), key.split("."))
    if known is None and not found:
        raise UsageError(_no_key(key, list(values)))
    return found, known


@config.command(name="set", context_settings={"ignore_unknown_options": True})
def set_value(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Such as ui.theme.", autocompletion=config_keys)],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="In YAML; null for none.")],
) -> int:
    """Set a key in your configuration file; everything else in it stays, comments included."""
    path = config_dir() / "config.yaml"
    try:
        rewrite(path, lambda text: set_key(text, key, value, path))
    except (ConfigError, UsageError) as error:
        raise UsageError(f"{error}; nothing was written") from error
    setup = Setup()
    place = setup.loaded.place(key)
    print(f"Wrote {key} to {path}")
    if str(path) not in place:
        print(f"agent: in this directory another value counts, from {place}", file=sys.stderr)
    return 0


@config.command()
def edit() -> int:
    """Open your configuration file in $VISUAL or $EDITOR; it is replaced only if the result is valid."""
    path = config_dir() / "config.yaml"
    rejected = path.with_name("config.yaml.rejected")
    before = text_of(path)
    begun = text_of(rejected) or before or example()
    edited = Editor().edit(begun, ".yaml")
    if edited.problem:
        raise UsageError(edited.problem)
    text = f"{edited.text}\n" if edited.text else ""
    if text == before or (not before and text == example()):
        print("Nothing was changed.")
        return 0

    def changed(now: str) -> str:
        if now != before:
            raise UsageError(f"{path} was changed in the meantime")
        return text

    try:
        rewrite(path, changed, place=rejected)
    except (ConfigError, UsageError) as error:
        raise UsageError(f"{error}. {path} is unchanged; {_keep(text, rejected)}") from error
    rejected.unlink(missing_ok=True)
    print(f"Wrote {path}")
    return 0


def _keep(text: str, rejected: Path) -> str:
    """Save text that cannot be the configuration, on another disk if that one is full. Return where it is."""
    try:
        replace_file(rejected, text.encode())
        return "`agent config edit` opens your text again"
    except OSError:
        with tempfile.NamedTemporaryFile(
            "w", prefix="agent-", suffix=".yaml", encoding="utf-8", delete=False
        ) as file:
            file.write(text)
        return f"your text is in {file.name}"


class _Known(msgspec.Struct, frozen=True):
    """A key as described by the schema."""

    default: Any = None
    about: str = ""
    below: tuple[str, ...] = ()
    """For a section, its keys."""
    choices: tuple[str, ...] = ()


def _described(key: str, known: _Known) -> list[str]:
    """Return the lines on a key's default and meaning; for a section, how to read on."""
    about = textwrap.wrap(known.about, 76, initial_indent="  ", subsequent_indent="  ")
    if known.choices:
        about.append(f"  one of: {', '.join(known.choices)}")
    if known.below:
        return [*about, f"  `agent config explain {key}.{known.below[0]}` tells more of one key"]
    return [f"  default: {_json(known.default)}", *about]


def _known(kind: msgspec.inspect.Type, path: list[str]) -> _Known | None:
    """Return the schema's entry at a path; None if there is none. The name of a dictionary entry may contain dots,
    as those of models do."""
    match kind:
        case msgspec.inspect.UnionType(types=options):
            return next((found for option in options if (found := _known(option, path))), None)
        case msgspec.inspect.DictType(value_type=inner):
            ends = (_known(inner, path[taken:]) for taken in range(1, len(path)))
            return next((found for found in ends if found), None)
        case msgspec.inspect.StructType():
            field = next((each for each in kind.fields if each.name == path[0]), None)
        case _:
            return None
    if field is None or len(path) > 1:
        return _known(field.type, path[1:]) if field else None
    inner = field.type
    about = words(kind.cls.__name__, field.name)
    if isinstance(inner, msgspec.inspect.StructType):
        below = tuple(each.name for each in inner.fields)
        return _Known(about=about or " ".join((inner.cls.__doc__ or "").split()), below=below)
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    kinds = {each.name: each.type for each in msgspec.structs.fields(kind.cls)}
    return _Known(default, about, choices=_choices(kinds[field.name]))


def _choices(kind: Any) -> tuple[str, ...]:
    """Return the words that a key accepts, if it accepts nothing else."""
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    return next((found for option in get_args(kind) if (found := _choices(option))), ())


def _no_key(key: str, known: list[str]) -> str:
    """Return the message for an unknown key, with the nearest one: similar in spelling, or in its last part."""
    sections = {name[:at] for name in known for at, char in enumerate(name) if char == "."}
    by_end: dict[str, str] = {}
    for name in known:
        by_end.setdefault(name.rpartition(".")[2], name)
    near = nearest(key, sorted({*known, *sections}), 0.7) or by_end.get(nearest(key, sorted(by_end), 0.7), "")
    hint = f"did you mean `{near}`?" if near else "`agent config show` lists them all"
    return f"there is no key {key!r}; {hint}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


@config.command()
def init() -> int:
    """Write a configuration file with every key at its default."""
    setup = Setup()
    target = setup.config_dir / "config.yaml"
    try:
        make_private(target.parent)
        create_file(target, example().encode())
    except FileExistsError as error:
        raise UsageError(f"{target} exists already; edit it") from error
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    print(f"Wrote {target}")
    return 0


@config.command()
def schema() -> int:
    """Print the JSON Schema of the configuration."""
    print_json(msgspec.json.schema(Config))
    return 0
