"""`agent permissions`: show what is allowed, asked or denied, by which rule of which file, and how it would run.
Commands are never executed; only the sandbox is probed if it has not been measured yet."""

import asyncio
import os
import re
import shlex
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

import msgspec
import typer
from typer.core import TyperCommand

from agent_cli.bootstrap import sandbox_setup
from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.setup import Setup
from agent_cli.config import yaml_file
from agent_cli.config.layer import ConfigError, Layer
from agent_cli.engine.permissions.active_policy import Permissions
from agent_cli.engine.permissions.sandbox_profile import SandboxProfiles
from agent_cli.policy.authorize import Policy, authorize, judged_parts
from agent_cli.policy.risk import risk
from agent_cli.policy.rule_examples import Example, Problem, check, decision
from agent_cli.policy.rules.rule import BUILT_IN_PLACE, Effect, RuleError, parse_rule, split_rules
from agent_cli.protocol.actions import (
    Action,
    Allow,
    Ask,
    Deny,
    Fetch,
    Mode,
    ReadPath,
    RunCommand,
    Verdict,
    WritePath,
    canonical_host,
)
from agent_cli.sandbox.profile.confinement import EnforcedLevel
from agent_cli.ui.text.lines import number
from agent_cli.workspace.paths import PathError

from ..services.completion import option
from .sessions.output import print_json

permissions = typer.Typer(help="Show what is allowed, asked or denied, and by which rule.", no_args_is_help=True)

_InMode = Annotated[
    str | None,
    option("--mode", text="Use this mode instead of the configured one.", value="|".join(get_args(Mode))),
]
_REACHES = {
    "inside": "in the sandbox",
    "network": "in the sandbox, with the network",
    "outside": "outside the sandbox",
}


@permissions.command("list")
def list_rules(
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False, mode: _InMode = None
) -> int:
    """List every rule in force, and where it is set."""
    judge = _permissions(Setup(), mode)
    rules = [
        {
            "effect": rule.effect,
            "rule": rule.text,
            "place": rule.place,
            "built_in": rule.place == BUILT_IN_PLACE,
        }
        for rule in judge.rules()
    ]
    if json:
        print_json({"mode": judge.mode, "rules": rules})
        return 0
    for rule in rules:
        print(f"{rule['effect']:5}  {rule['rule']}    # {rule['place']}")
    return 0


class _Explain(TyperCommand):
    """Takes a command line that is not quoted too: `explain git push --force`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _in_one_word(args))


def _in_one_word(args: list[str]) -> list[str]:
    """Join the words of a command line that is not quoted, up to the end. Options of `explain` come before it, or
    behind a single word."""
    start = end = _behind_options(args, 0)
    start += args[start : start + 1] == ["--"]
    is_line = len(args) - start > 1 and not re.match(r"-|.*\s", args[start])
    if not is_line or _behind_options(args, start + 1) >= len(args):
        return args
    return [*args[:end], "--", shlex.join(args[start:])]


def _behind_options(args: list[str], at: int) -> int:
    while at < len(args) and (option := re.fullmatch(r"--(?:mode|write|read|fetch|cwd)(=.*)?", args[at])):
        at += 1 if option[1] else 2
    return at


@permissions.command("explain", cls=_Explain)
def explain_action(
    command: Annotated[str | None, typer.Argument(help="A command line; options come before it.")] = None,
    write: Annotated[str | None, typer.Option(help="A path to write to, instead of a command.")] = None,
    read: Annotated[str | None, typer.Option(help="A path to read, instead of a command.")] = None,
    fetch: Annotated[str | None, typer.Option(help="An address to fetch, instead of a command.")] = None,
    mode: _InMode = None,
    cwd: Annotated[str | None, typer.Option(help="The directory a command starts in.")] = None,
) -> int:
    """Explain what would happen to a command, write, read or fetch, and which rule decides."""
    given = [each for each in (command, write, read, fetch) if each is not None]
    if len(given) != 1:
        raise UsageError("name one of: a command, --write PATH, --read PATH, --fetch URL")
    setup = Setup()
    policy = _permissions(setup, mode).policy()
    action = _action(setup, command, write, read, fetch, cwd)
    verdict = authorize(action, policy)
    print(in_words(verdict))
    for line in _details(action, verdict, policy):
        print(f"  {line}")
    return 0


@permissions.command("test")
def test_examples(
    file: Annotated[Path, typer.Argument(help="Examples under allow, ask and deny; or a configuration file.")],
    mode: _InMode = None,
) -> int:
    """Check the rules in force against a file of examples."""
    layer = _read(file)
    shown = layer.values.get("permissions", layer.values)
    prefix = "permissions." if "permissions" in layer.values else ""
    if wrong := _unreadable_rules(layer, shown) if prefix else []:
        print("\n".join([*wrong, f"{number(len(wrong), 'rule')} cannot be read"]))
        return 2
    if prefix:
        shown, prefix = shown.get("examples", {}), f"{prefix}examples."
    examples = _examples(layer, shown, prefix)
    setup = Setup()
    policy = _permissions(setup, mode).policy()
    problems = check(examples, decision(policy))
    for problem in problems:
        print(f"{problem.example.place}: {problem.example.text}: {problem.why}")
    return _summed_up(len(examples), problems, is_configuration=bool(prefix))


def _summed_up(count: int, problems: list[Problem], is_configuration: bool) -> int:
    if unread := [problem for problem in problems if problem.verdict is None]:
        print(f"{number(len(unread), 'example')} cannot be read")
        return 2
    if problems:
        print(f"{len(problems)} of {number(count, 'example')} failed")
        return 1
    read = "every rule can be read" if is_configuration else ""
    print("; ".join(filter(None, (read, f"{number(count, 'example')} passed" if count else ""))) or "no examples")
    return 0


def in_words(verdict: Verdict) -> str:
    """Return a verdict as readable text."""
    if isinstance(verdict, Allow):
        return f"allowed: {verdict.rule}"
    if isinstance(verdict, Ask):
        rules = " and ".join(f"`{rule}`" for rule in split_rules(verdict.grant))
        offered = f"; {rules} would allow it" if verdict.grant else ""
        return f"asked: {verdict.reason} ({verdict.rule}){offered}"
    return f"denied: {verdict.reason} ({verdict.rule})"


def _details(action: Action, verdict: Verdict, policy: Policy) -> list[str]:
    """Return how an action would run, its worst effect, and for a compound command line the verdict on each
    command."""
    lines = []
    if isinstance(action, RunCommand):
        if not isinstance(verdict, Deny):
            once = "" if isinstance(verdict, Allow) else "once approved, "
            lines.append(f"runs: {once}{_REACHES[verdict.reach] if policy.sandboxed else 'without a sandbox'}")
        parts = judged_parts(action, policy)
        lines += [f"{shown}: {in_words(each)}" for shown, each in parts] if len(parts) > 1 else []
    is_confined = not isinstance(verdict, Deny) and verdict.reach != "outside"
    lines.append(f"at worst: {risk(action, policy, is_confined=is_confined)}")
    return lines


def _action(
    setup: Setup, command: str | None, write: str | None, read: str | None, fetch: str | None, cwd: str | None
) -> Action:
    if fetch is not None:
        address = fetch if "://" in fetch else f"https://{fetch}/"
        try:
            host = canonical_host(urlsplit(address).hostname or "")
        except ValueError:
            host = ""
        if not host:
            raise UsageError(f"--fetch: {fetch!r} names no host")
        return Fetch(address, host)
    if command is not None:
        folder = os.path.realpath(setup.workspace.root / (cwd or "."))
        if not os.path.isdir(folder):
            raise UsageError(f"--cwd: {cwd} is not a directory")
        return RunCommand(command, folder)
    option = "--write" if write is not None else "--read"
    try:
        place = setup.workspace.resolve(write or read or "")
    except PathError as error:
        raise UsageError(f"{option}: {error}") from error
    return (WritePath if write is not None else ReadPath)(place.real, place.shown)


def _read(file: Path) -> Layer:
    """Read a file of examples, or a configuration file."""
    try:
        data = file.read_bytes()
        values, lines = yaml_file.load_yaml(data.decode("utf-8-sig"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: write lists of examples under allow, ask and deny")
    if values.keys() <= set(get_args(Effect)):
        return Layer(str(file), values, lines)
    layer = yaml_file.parse(data, file)
    if "permissions" not in values:
        raise ConfigError(f"{file}: it has neither examples under allow, ask and deny nor `permissions`")
    return layer


def _examples(layer: Layer, shown: Any, prefix: str) -> tuple[Example, ...]:
    found = []
    if not isinstance(shown, dict) or not shown.keys() <= set(get_args(Effect)):
        raise ConfigError(f"{layer.place(prefix.rstrip('.'))}: examples are lists under allow, ask and deny")
    for effect in get_args(Effect):
        texts = shown.get(effect) or []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"{layer.place(prefix + effect)}: {effect} must be a list of texts")
        found += [Example(effect, text, layer.place(f"{prefix}{effect}.{at}")) for at, text in enumerate(texts)]
    return tuple(found)


def _unreadable_rules(layer: Layer, shown: Any) -> list[str]:
    """Return a line for each invalid rule of a configuration file, with its line number."""
    wrong = []
    for effect in get_args(Effect):
        for at, text in enumerate(shown.get(effect) or []):
            place = layer.place(f"permissions.{effect}.{at}")
            try:
                parse_rule(str(text), effect, place)
            except RuleError as error:
                wrong.append(f"{place}: {error}")
    return wrong


def _permissions(setup: Setup, mode: str | None) -> Permissions:
    """Return the permissions in force here, in a mode."""
    if mode is not None and mode not in get_args(Mode):
        raise UsageError(f"--mode: {mode!r} is not one of {', '.join(get_args(Mode))}")
    from agent_cli.bootstrap.session_builder import permissions_of

    permissions = permissions_of(setup, _confining(setup), tuple, setup.state / "spill")
    if mode is not None:
        permissions.mode = msgspec.convert(mode, Mode)
    return permissions


def _confining(setup: Setup) -> SandboxProfiles:
    """Return the sandbox profiles by the last measurement, or by a new one."""
    wanted = sandbox_setup.wanted_for(setup)
    strength = EnforcedLevel("none")
    if wanted.level != "off":
        strength = sandbox_setup.kept(setup.state) or asyncio.run(sandbox_setup.measured())
    return SandboxProfiles(setup.workspace, wanted, strength)
