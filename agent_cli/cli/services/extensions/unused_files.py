"""Files and folders of other agents that are not read here, and what to do about each."""

from collections.abc import Iterator, Mapping
from pathlib import Path

_IMPORT = "not read; a line `@{name}` in AGENTS.md imports it"
_UNUSED: Mapping[str, str] = {
    ".cursorrules": f"rules of Cursor: {_IMPORT}",
    ".cursor/rules": "rules of Cursor: not read; AGENTS.md can import each with a line `@PATH`",
    ".windsurfrules": f"rules of Windsurf: {_IMPORT}",
    ".windsurf/rules": "rules of Windsurf: not read; AGENTS.md can import each with a line `@PATH`",
    ".clinerules": f"rules of Cline: {_IMPORT}",
    ".roo/rules": "rules of Roo Code: not read; AGENTS.md can import each with a line `@PATH`",
    ".kiro/steering": "steering files of Kiro: not read; AGENTS.md can import each with a line `@PATH`",
    ".github/copilot-instructions.md": f"instructions of Copilot: {_IMPORT}",
    ".junie/guidelines.md": f"guidelines of Junie: {_IMPORT}",
    ".goosehints": f"hints of goose: {_IMPORT}",
    ".aider.conf.yml": "settings of aider: not read; the settings here are in .agent/config.yaml",
    ".claude/output-styles": "output styles: not read; AGENTS.md can describe a style",
    ".opencode/plugin": "plug-ins in JavaScript: cannot be run here",
    ".opencode/plugins": "plug-ins in JavaScript: cannot be run here",
}


def unused_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the unused files in a workspace, with the reason and advice."""
    for name, why in _UNUSED.items():
        if (root / name).exists():
            yield root / name, why.format(name=name)
