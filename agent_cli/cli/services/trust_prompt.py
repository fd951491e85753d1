"""The trust prompt: settings that a project brings are shown before use, and approved with a single question."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_cli.bootstrap.setup import Setup
from agent_cli.config.dirs import defines_hooks, defines_servers
from agent_cli.config.layer import ConfigError
from agent_cli.config.load import PROJECT_FILE
from agent_cli.config.project_restrictions import restrict_project_layer
from agent_cli.config.schema import Ui
from agent_cli.config.yaml_file import parse
from agent_cli.protocol.sanitize import visible
from agent_cli.ui.text.theme import choose as choose_theme
from agent_cli.ui.text.theme import is_plain
from agent_cli.workspace.instructions import InstructionFiles, instruction_bytes

if TYPE_CHECKING:
    from agent_cli.hooks.definition import Hook
    from agent_cli.protocol.agent_types import AgentType


_MOST_LISTED = 40
"""Maximum lines of the question about a project's settings; it must fit on a screen or two."""
_MOST_AGENTS = 3
"""Maximum number of ignored sub-agents that are named."""


class TrustRequest(msgspec.Struct, frozen=True):
    """Settings that a project brings and the user has not approved."""

    place: str
    content: bytes
    """The content to which an approval is bound: other content asks again."""
    effects: tuple[str, ...]
    """The effects of an approval, one line each."""
    texts: tuple[tuple[str, bytes], ...]
    """Name and content of each file."""
    effect_if_denied: str = "is ignored: not trusted"
    """The consequence without approval."""


def pending_trust_requests(setup: Setup) -> tuple[TrustRequest, ...]:
    """Return all settings that the project brings and that are not in force."""
    found = []
    if setup.untrusted is not None:
        file = setup.workspace.root / PROJECT_FILE
        effects = tuple(_effects(setup, setup.untrusted))
        found.append(TrustRequest(str(file), setup.untrusted, effects, ((str(PROJECT_FILE), setup.untrusted),)))
    if not setup.tools_are_trusted():
        place, content = setup.tools_as_one()
        texts = tuple(setup.tool_sources.items())
        effects = tuple(
            f"{path}: {len(text):,} bytes of Python that would run with your rights" for path, text in texts
        )
        found.append(TrustRequest(place, content, effects, texts))
    found += _hooks(setup)
    found += _servers(setup)
    found += _agents(setup)
    found += map(_instructing, _doubtful(setup))
    return tuple(found)


def _hooks(setup: Setup) -> list[TrustRequest]:
    """Return the hooks that the project brings and the user has not approved in their present form."""
    if not defines_hooks(setup.workspace.root):
        return []
    from agent_cli.bootstrap.hooks import found_hooks
    from agent_cli.extensions.hook_files import PLACE

    return [
        TrustRequest(
            each.place,
            each.content,
            tuple(f"hook at {hook.event}: {_what_it_does(hook)}" for hook in each.hooks),
            ((each.place.removeprefix(PLACE), each.content),),
        )
        for each in found_hooks(setup).inert
    ]


def _what_it_does(hook: "Hook") -> str:
    if hook.request is None:
        return f"runs {hook.line}"
    sent = ", ".join(f"{name}: {value}" for name, value in hook.request.headers)
    named = f" (with the values of {', '.join(hook.request.env)})" if hook.request.env else ""
    headers = f", with the headers {sent}{named}" if sent else ""
    return f"sends the event to {hook.request.url}{headers}"


def _servers(setup: Setup) -> list[TrustRequest]:
    """Return the MCP servers that the project brings and the user has not approved in their present form."""
    if not defines_servers(setup.workspace.root):
        return []
    from agent_cli.bootstrap.mcp_servers import found_servers

    return [
        TrustRequest(
            each.place,
            each.content,
            tuple(f"MCP server {line}" if at == 0 else line for at, line in enumerate(each.shown)),
            ((each.definition.source, each.content),),
        )
        for each in found_servers(setup).inert
    ]


def _agents(setup: Setup) -> list[TrustRequest]:
    """Return the sub-agents that the project defines and the user has not approved in their present form."""
    if not setup.places_of("agents"):
        return []
    from agent_cli.bootstrap.agents import found_agents

    return [
        TrustRequest(each.trust_place, each.content, tuple(_about(each.type)), ((each.path, each.content),))
        for each in found_agents(setup).inert
        if each.type is not None
    ]


def _about(found: "AgentType") -> Iterator[str]:
    yield f"sub-agent {found.name}: {found.description}"
    yield f"instructions to a model: {len(found.instructions):,} characters"
    yield f"tools: {'all of yours' if found.tools is None else ', '.join(found.tools) or 'none'}"
    if found.mode is not None:
        yield f"mode: {found.mode}, unless yours is narrower"
    if found.model:
        yield f"model: {found.model}"


def _doubtful(setup: Setup) -> list[str]:
    """Return the instruction files whose content may come from others."""
    try:
        if not setup.trust.has_doubts():
            return []
    except ConfigError:  # problems of the folder are reported when a session is opened
        return []
    chain = InstructionFiles(setup.root, setup.config.context.instructions)
    chain.read()
    return sorted(filter(setup.is_doubtful, {*chain.files, *_skill_files(setup)}))


def _skill_files(setup: Setup) -> set[str]:
    if not setup.skill_places():
        return set()
    from agent_cli.bootstrap.skills import skill_library

    return {os.path.realpath(skill.path) for skill in skill_library(setup).now().skills}


def _instructing(real: str) -> TrustRequest:
    content = instruction_bytes(real)
    effect = "instructions to the model, which a command wrote while text from others was in the conversation"
    otherwise = "is given to the model as data, not as instructions"
    return TrustRequest(real, content, (effect,), ((real, content),), otherwise)


def _effects(setup: Setup, data: bytes) -> Iterator[str]:
    """Yield the settings of a configuration file, and those that would be ignored even if approved."""
    try:
        layer = parse(data, setup.workspace.root / PROJECT_FILE)
    except ConfigError as error:
        yield f"it cannot be used: {error}"
        return
    from .listings.settings import flatten

    kept = restrict_project_layer(layer, setup.config)
    for key, found in flatten(kept.layer.values):
        if found == {}:
            continue
        for value in found if isinstance(found, list | tuple) else (found,):
            runs = key.startswith("rules") and isinstance(value, dict) and "after_edit_run" in value
            note = " — a command that runs automatically" if runs else ""
            yield f"{key}: {msgspec.json.encode(value).decode()}{note}"
    for key in kept.ignored:
        yield f"{key}: ignored: not allowed in a project file"


def ask_for_trust(setup: Setup) -> None:
    """Show the project's settings and ask once; without a terminal only warn that they are ignored."""
    found = [
        offer for offer in pending_trust_requests(setup) if not setup.trust.refuses(offer.place, offer.content)
    ]
    if not found:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("\n".join(inert_lines(found)), file=sys.stderr)
        return
    print("This project brings its own settings. They are ignored unless you agree:\n")
    shown, whole = list(_listed(found, _MOST_LISTED)), list(_listed(found))
    print("\n".join(shown))
    while (answer := _answer(setup.config.ui)) == "v" or (answer == "y" and shown != whole):
        if shown != whole:  # an approval covers only what was shown
            print("\n".join(whole))
            shown = whole
        if answer == "v":
            for name, text in (text for offer in found for text in offer.texts):
                print(f"\n--- {_shown(name)}\n{visible(text.decode('utf-8', 'replace'))}")
    if answer in ("y", "d"):
        for offer in found:
            setup.trust.remember(offer.place, offer.content, agreed=answer == "y")
        setup.reload()


def inert_lines(found: Sequence[TrustRequest]) -> list[str]:
    """Return the warnings on settings that are ignored because nobody can be asked: one line each, limited in
    number, and one for all sub-agents if they are many."""
    from agent_cli.extensions.agents.find import PLACE

    agents = [offer for offer in found if offer.place.startswith(PLACE)]
    if len(agents) > _MOST_AGENTS:
        found = [offer for offer in found if offer not in agents]
        many = [f"{len(agents)} sub-agents of this project are ignored: not trusted."]
    else:
        many = []
    rows = [f"{_shown(offer.place)} {offer.effect_if_denied}." for offer in found[:_MOST_LISTED]]
    more = len(found) - len(rows)
    return [*rows, *many, *([f"{more} more places of this project are not trusted."] if more else [])]


def _listed(found: Sequence[TrustRequest], most: int | None = None) -> Iterator[str]:
    """Yield the effects of each place, at most `most` lines; the rest is counted."""
    left = most if most is not None else sum(len(offer.effects) for offer in found)
    for at, offer in enumerate(found):
        if left <= 0:
            count = sum(len(each.effects) for each in found[at:])
            yield f"  … and {count} more in {len(found) - at} more places: view lists them all\n"
            return
        yield f"  {_shown(offer.place)}"
        yield from (f"    {_shown(line)}" for line in offer.effects[:left])
        if (more := len(offer.effects) - left) > 0:
            yield f"    … and {more} more: view lists them all"
        yield ""
        left -= len(offer.effects)


_ANSWERS = {
    "y": "Yes",
    "n": "Not now",
    "v": "View all of it, with the files",
    "d": "No, and do not ask again until they change",
}


def _answer(settings: Ui) -> str:
    """Return y, v or d, or anything else for no."""
    if is_plain(settings, sys.stdin, sys.stdout):
        shown = " ".join(f"[{key}] {label}" for key, label in _ANSWERS.items())
        return input(f"Use it? {shown} (empty: n): ").strip().lower()[:1]
    import asyncio

    from agent_cli.ui.commands.api import Choice
    from agent_cli.ui.repl.standalone_picker import choose

    choices = [Choice(key, label, key=key) for key, label in _ANSWERS.items()]
    return asyncio.run(choose("Use it?", choices, choose_theme(settings)))


def _shown(text: str) -> str:
    return visible(text.encode("utf-8", "replace").decode("utf-8")).replace("\n", "␤")
