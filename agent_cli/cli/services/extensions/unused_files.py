"""Files and folders of other agents that are not read here, and what to do about each."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from agent_cli.config.foreign_settings import settings_in

_IMPORT = "not read; a line `@{name}` in AGENTS.md imports it"
_EACH = "not read; AGENTS.md can import each with a line `@PATH`"
_IGNORE = "not read; the same lines in .agentignore close these files"
_SERVERS = "not read; `agent mcp add` adds each"
_UNUSED: Mapping[str, str] = {
    ".cursorrules": f"rules of Cursor: {_IMPORT}",
    ".cursor/rules": f"rules of Cursor: {_EACH}",
    ".windsurfrules": f"rules of Windsurf: {_IMPORT}",
    ".windsurf/rules": f"rules of Windsurf: {_EACH}",
    ".clinerules": f"rules of Cline: {_IMPORT}",
    ".roo/rules": f"rules of Roo Code: {_EACH}",
    ".kiro/steering": f"steering files of Kiro: {_EACH}",
    ".claude/CLAUDE.md": f"instructions of Claude Code: {_IMPORT}",
    "CLAUDE.local.md": f"instructions of Claude Code: {_IMPORT}",
    ".claude/rules": f"rules of Claude Code: {_EACH}",
    ".github/copilot-instructions.md": f"instructions of Copilot: {_IMPORT}",
    ".github/instructions": f"instructions of Copilot: {_EACH}",
    ".junie/guidelines.md": f"guidelines of Junie: {_IMPORT}",
    ".goosehints": f"hints of goose: {_IMPORT}",
    ".aider.conf.yml": "settings of aider: not read; the settings here are in .agent/config.yaml",
    ".claude/output-styles": "output styles: not read; AGENTS.md can describe a style",
    ".opencode/plugin": "plug-ins in JavaScript: cannot be run here",
    ".opencode/plugins": "plug-ins in JavaScript: cannot be run here",
    ".cursorignore": f"closed files of Cursor: {_IGNORE}",
    ".geminiignore": f"ignored files of Gemini CLI: {_IGNORE}",
    ".aiexclude": f"closed files of Gemini: {_IGNORE}",
    ".clineignore": f"closed files of Cline: {_IGNORE}",
    ".rooignore": f"closed files of Roo Code: {_IGNORE}",
    ".codeiumignore": f"closed files of Windsurf: {_IGNORE}",
    ".roo/mcp.json": f"MCP servers of Roo Code: {_SERVERS}",
    ".kiro/settings/mcp.json": f"MCP servers of Kiro: {_SERVERS}",
    ".amazonq/mcp.json": f"MCP servers of Amazon Q: {_SERVERS}",
    ".junie/mcp/mcp.json": f"MCP servers of Junie: {_SERVERS}",
}
_UNUSED_OF_USER: Mapping[str, str] = {
    **{
        name: f"instructions of {product}: not read; a line `@~/{name}` in your own AGENTS.md imports it"
        for name, product in (
            (".claude/CLAUDE.md", "Claude Code"), (".codex/AGENTS.md", "Codex"),
            (".gemini/GEMINI.md", "Gemini CLI"), (".config/opencode/AGENTS.md", "OpenCode"),
        )
    },
    ".codeium/windsurf/mcp_config.json": f"MCP servers of Windsurf: {_SERVERS}",
}  # fmt: skip
_RULES = "not read; write them under `permissions` in {place}"
_OPENCODE = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".config/opencode/opencode.json")
_SETTINGS: tuple[tuple[str, str, str], ...] = (
    *((f".claude/{name}", key, f"permission rules of Claude Code: {_RULES}")
      for name in ("settings.json", "settings.local.json") for key in ("permissions.deny", "permissions.ask")),
    *((name, "permission", f"permission rules of OpenCode: {_RULES}") for name in _OPENCODE),
    *((name, "agent", "sub-agents of OpenCode: not read here, only in files") for name in _OPENCODE),
    *((name, "command", "commands of OpenCode: not read here, only in files") for name in _OPENCODE),
    *((".gemini/settings.json", key, f"tools that Gemini CLI leaves out: {_RULES}")
      for key in ("tools.exclude", "excludeTools")),
)  # fmt: skip
"""Parts of files that are not read: the file, a key, and why. Rules that only allow are no loss: the agent asks
more without them."""
_MOST_BYTES = 500_000


def unused_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield what is not used of the files in a workspace, with the reason and advice."""
    yield from _unused(root, _UNUSED, ".agent/config.yaml")


def unused_files_of_user(home: Path) -> Iterator[tuple[Path, str]]:
    """Yield what is not used of the user's files, with the reason and advice."""
    yield from _unused(home, _UNUSED_OF_USER, "your configuration (`agent config path`)")


def _unused(folder: Path, table: Mapping[str, str], place: str) -> Iterator[tuple[Path, str]]:
    for name, why in table.items():
        if (folder / name).exists():
            yield folder / name, why.format(name=name)
    for name, group in groupby(sorted(_SETTINGS), key=itemgetter(0)):
        content = settings_in(folder / name, _MOST_BYTES)
        for _, key, why in group if content else ():
            if _at(content, key):
                yield folder / f"{name} ({key})", why.format(place=place)


def _at(content: Any, key: str) -> Any:
    """Return the value of a key with dots; None if there is none."""
    for part in key.split("."):
        content = content.get(part) if isinstance(content, dict) else None
    return content
