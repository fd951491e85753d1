"""Slash commands on settings: model, effort, mode, colours, permissions, tools and configuration."""

import re
from collections.abc import Sequence
from typing import get_args

import msgspec

from agent_cli.config.schema import Ui
from agent_cli.protocol.actions import Mode
from agent_cli.protocol.operations import ChangeSettings, RemoveGrant
from agent_cli.protocol.usage import EFFORTS

from ..services import ConfigLine, ModelLine
from ..text import lines
from ..text.theme import choose
from .api import Choice, CommandContext

MODES: dict[Mode, str] = {
    "plan": "reads only",
    "ask": "edits and commands ask",
    "auto-edit": "edits freely, commands run in the sandbox",
    "yolo": "asks for next to nothing",
}
"""Short explanation of each mode."""
_OTHER_MODES: dict[str, Mode] = {
    "default": "ask",
    "acceptedits": "auto-edit",
    "full-auto": "auto-edit",
    "bypasspermissions": "yolo",
    "read-only": "plan",
}
"""Names that other agents use for modes, in lower case."""
_BUILT_IN = "built in"
_NO_MATCH = "No known model has that in its name. Any name of a provider can be used: /model PROVIDER/MODEL."


async def confirms_yolo(context: CommandContext) -> bool:
    """Ask once before switching to mode yolo, which asks for next to nothing; return True if it is already on."""
    now = context.client.snapshot().mode
    choices = (Choice("yes", "Switch to yolo", key="y"), Choice("no", f"Stay in {now}", key="n"))
    asked = "Mode yolo runs commands and changes files without asking. Switch?"
    return now == "yolo" or await context.pick(asked, choices) == "yes"


def theme_names(context: CommandContext) -> tuple[str, ...]:
    """Return the values that `ui.theme` accepts."""
    (found,) = (field.type for field in msgspec.structs.fields(Ui) if field.name == "theme")
    return get_args(found)


async def model(context: CommandContext, argument: str) -> None:
    """`/model [NAME]`: show or change the model; an unambiguous part of a name is enough."""
    now = context.client.snapshot().model
    if not argument:
        known = sorted(await context.host.usual_models(), key=lambda line: line.name != now)
        title = f"Select model (now: {lines.one_line(now)}; any other: /model NAME)"
        argument = await _picked_model(context, title, known)
    elif "/" not in argument:
        found = await _named_models(context, argument)
        if not found:
            context.say(_NO_MATCH)
            return
        title = f"Select model (several match “{lines.one_line(argument)}”)"
        argument = found[0].name if len(found) == 1 else await _picked_model(context, title, found)
    if argument:
        await context.submit(ChangeSettings(model=argument))


async def _named_models(context: CommandContext, query: str) -> list[ModelLine]:
    """Return the models that a part of a name stands for: those that servers list first. If words of some names
    begin with it, as in `gpt-5-mini` and not in `gemini`, only those."""
    found = {line.name: line for line in context.host.models(query)}
    if len(found) != 1 or context.client.snapshot().model in found:
        words = query.lower().split()
        usual = {line.name: line for line in await context.host.usual_models()}
        found = {name: usual[name] for name in usual if all(word in name.lower() for word in words)} | found
    if query in found:
        return [found[query]]
    begun = [re.compile(rf"(?<![a-z0-9]){re.escape(word)}") for word in query.lower().split()]
    named = [line for name, line in found.items() if all(word.search(name.lower()) for word in begun)]
    return named or list(found.values())


async def _picked_model(context: CommandContext, title: str, known: Sequence[ModelLine]) -> str:
    now = context.client.snapshot().model
    choices = [Choice(line.name, lines.one_line(line.name), _facts(line, now)) for line in known]
    return await context.pick(title, choices)


def _facts(line: ModelLine, now: str) -> str:
    """Return the known facts about a model, in a few words."""
    facts = ["now"] if line.name == now else []
    facts += [f"{lines.count(line.window)} context"] if line.window else []
    if line.input_usd is not None and line.output_usd is not None:
        facts.append(f"${line.input_usd:g}/${line.output_usd:g} per 1M tokens")
    facts += [] if line.has_key else ["no key"]
    return " · ".join(facts)


async def mode(context: CommandContext, argument: str) -> None:
    """`/mode [MODE]`: show or change what is allowed without asking."""
    now = context.client.snapshot().mode
    if not argument:
        argument = await _picked(context, f"Select mode (now: {now})", MODES, now)
        if not argument:
            return
    chosen = next((known for known in MODES if known == argument.lower()), _OTHER_MODES.get(argument.lower()))
    if chosen is None:
        context.say(f"Mode: {now}. Choose one of: {', '.join(MODES)}.")
    else:
        await context.submit(ChangeSettings(mode=chosen))


async def effort(context: CommandContext, argument: str) -> None:
    """`/effort [LEVEL]`: show or change the reasoning effort."""
    now = context.client.snapshot().effort
    if not argument:
        title = f"Select effort (now: {now or 'default of the provider'})"
        argument = await _picked(context, title, dict.fromkeys(EFFORTS, ""), now)
        if not argument:
            return
    if argument in EFFORTS:
        await context.submit(ChangeSettings(effort=argument))
    else:
        context.say(f"Effort: {now or 'as the provider has it'}. Choose one of: {', '.join(EFFORTS)}.")


async def theme(context: CommandContext, argument: str) -> None:
    """`/theme [NAME]`: change the colours for this session."""
    names = theme_names(context)
    argument = argument or await _picked(context, "Select colours", dict.fromkeys(names, ""), "")
    if not argument:
        return
    chosen = next((name for name in names if name == argument), None)
    if chosen is None:
        context.say(f"Choose one of: {', '.join(names)}.")
        return
    now = choose(msgspec.convert({"theme": chosen}, Ui))
    context.use_theme(msgspec.structs.replace(now, links=now.colour and context.theme.links))
    if chosen != "none" and not context.theme.colour:
        context.say("There are no colours here: NO_COLOR, --plain or the terminal keeps them off.")
    else:
        context.say(f"Colours: {chosen}. To keep them: `ui: {{theme: {chosen}}}` in your config.yaml.")


async def _picked(context: CommandContext, title: str, known: dict[str, str] | dict[Mode, str], now: str) -> str:
    choices = [
        Choice(name, name, " · ".join(filter(None, ["now" * (name == now), meaning])))
        for name, meaning in known.items()
    ]
    return await context.pick(title, choices)


async def permissions(context: CommandContext, argument: str) -> None:
    """`/permissions [remove [RULE]]`: list the rules in force, or remove a saved rule."""
    verb, _, rule = argument.partition(" ")
    if verb == "remove":
        await _remove_rule(context, rule.strip())
    elif verb:
        context.say("Use /permissions, or /permissions remove RULE.")
    else:
        _list_rules(context)


def _list_rules(context: CommandContext) -> None:
    rules = context.host.permissions()
    own = [rule for rule in rules if rule.place != _BUILT_IN]
    paint = context.theme.paint
    rows = [
        f"  {rule.verdict:<5} {lines.one_line(rule.rule)}  {paint('muted', lines.one_line(rule.place))}"
        for rule in own
    ]
    count = len(rules) - len(own)
    rows += [f"  {count} built-in rules on secrets: `agent permissions list` shows them"] if count else []
    rows += ["Remove a saved rule: /permissions remove"] if any(rule.is_saved for rule in own) else []
    context.say("\n".join([f"Mode {context.client.snapshot().mode}; deny beats ask beats allow.", *rows]))


async def _remove_rule(context: CommandContext, rule: str) -> None:
    saved = [line for line in context.host.permissions() if line.is_saved]
    if not saved:
        context.say("No saved rules. Rules of a configuration file are removed there.")
        return
    choices = [Choice(line.rule, lines.one_line(line.rule), lines.one_line(line.place)) for line in saved]
    if rule := rule or await context.pick("Remove which saved rule?", choices):
        await context.submit(RemoveGrant(rule))


async def tools(context: CommandContext, argument: str) -> None:
    """`/tools`: list the model's tools."""
    from .help import name_rows

    found = context.host.tools()
    rows = [f"The model is offered {len(found)} tools:"]
    for tool in found:
        name, text = lines.one_line(tool.name, 48), lines.one_line(tool.summary, 76)
        text += f" ({lines.one_line(tool.source, 60)})" * (tool.source != _BUILT_IN)
        rows += name_rows(name, name, text, context.columns, context.theme)
    last = lines.wrap("`tools.enabled` and --tools choose among them.", context.columns)
    context.say("\n".join([*rows, *last]), wrap=False)


async def config(context: CommandContext, argument: str) -> None:
    """`/config [KEY]`: show the values that differ from the defaults, or one key, with where they are set."""
    everything = context.host.config()
    shown = [line for line in everything if not line.is_default]
    if argument:
        shown = [line for line in everything if line.key == argument or line.key.startswith(f"{argument}.")]
    if argument and not shown:
        context.say(f"There is no key {lines.one_line(argument, 80)}; `agent config show` lists them all.")
        return
    muted = context.theme.paint
    rows = [
        f"  {lines.one_line(line.key, 100)}: {lines.one_line(line.value, 300)}  "
        f"{muted('muted', lines.one_line(line.place))}"
        for line in shown
    ]
    rows += _chosen_here(context, shown if argument else everything)
    if not argument:
        rest = lines.number(len(everything) - len(shown), "other key")
        rows.append(f"{rest} at default; /config KEY shows one.")
    context.say("\n".join(rows))


def _chosen_here(context: CommandContext, shown: Sequence[ConfigLine]) -> list[str]:
    """Return the settings of this session that differ from the configuration."""
    now = context.client.snapshot()
    here = {"model": now.model, "mode": now.mode, "effort": now.effort}
    said = {line.key: line.value.strip('"') for line in shown}
    return [
        f"  {key}: {lines.one_line(value)}  {context.theme.paint('muted', 'in this session')}"
        for key, value in here.items()
        if value and key in said and said[key] != value
    ]
