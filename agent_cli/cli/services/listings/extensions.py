"""Tools, hooks and plug-ins, as the front ends list them."""

import re
from typing import TYPE_CHECKING

from agent_cli.tools.kit.base import describe
from agent_cli.tools.plugins import Extension
from agent_cli.tools.registry import Registry
from agent_cli.ui import services

if TYPE_CHECKING:
    from agent_cli.bootstrap.plugins import LoadedPlugins
    from agent_cli.hooks.definition import Hook
    from agent_cli.hooks.engine import HookEngine

_SENTENCE = re.compile(r"(.+?[.:])(?:\s|$)", re.DOTALL)


def tools(registry: Registry) -> tuple[services.ToolLine, ...]:
    """Return the tools offered to the model."""
    found = []
    for name in registry.names:
        tool = registry.get(name)
        assert tool is not None
        said = describe(tool)
        first = _SENTENCE.match(said)
        summary = " ".join((first.group(1) if first else said).split()).rstrip(":")
        found.append(services.ToolLine(name, summary, _source(tool)))
    return tuple(found)


def _source(tool: object) -> str:
    if not isinstance(tool, Extension):
        return "built in"
    return "this project, .agent/tools" if tool.source == "project" else f"the plugin {tool.source}"


def plugin_lines(plugins: "LoadedPlugins") -> tuple[services.PluginLine, ...]:
    """Return the installed plug-ins."""
    from agent_cli.extensions.plugins.effects import part_lines

    return tuple(
        services.PluginLine(
            each.name,
            each.installed.version,
            each.state,
            ", ".join(part_lines(each.plugin)) if each.plugin is not None else "",
            each.installed.source,
            each.problem,
        )
        for each in plugins.listed
    )


def hook_lines(hooks: "HookEngine") -> tuple[services.HookLine, ...]:
    """Return a line for each hook."""
    found = []
    for hook in hooks.hooks:
        runs = [run for run in hooks.runs if run.hook == hook.label and run.event == hook.event]
        last = runs[-1] if runs else None
        ended = (
            last.failure or f"{last.decision or 'no decision'}, {last.duration_s * 1000:.0f} ms" if last else ""
        )
        is_off = hook.label in hooks.is_off
        line = services.HookLine(
            hook.label, hook.event, hook.matcher, hook.line, hook.source, is_off, ended, len(runs), _about(hook)
        )
        found.append(line)
    return tuple(found)


def _about(hook: "Hook") -> str:
    facts = (
        f"if {hook.condition}" if hook.condition else "",
        "beside the turn" if hook.is_async else "",
        "once" if hook.is_once else "",
        hook.status,
    )
    return ", ".join(filter(None, facts))
