"""Plug-ins in the three layouts, for tests."""

import json
from pathlib import Path
from typing import Any

SKILL = "---\nname: look\ndescription: Looks at it.\n---\nLook: !`cat notes`\n"


def write(root: Path, paths: dict[str, Any]) -> Path:
    """Write files below a folder, JSON where the content is no text."""
    for name, content in paths.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return root


def hooks(command: str, event: str = "PreToolUse", matcher: str = "") -> dict[str, Any]:
    """A file of hooks with one command."""
    return {"hooks": {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]}}


def claude(root: Path, name: str = "tools", **manifest: Any) -> Path:
    """A plug-in of Claude Code with every part that is used."""
    return write(
        root,
        paths={
            ".claude-plugin/plugin.json": {"name": name, "version": "1.0.0", "description": "Tools.", **manifest},
            "skills/look/SKILL.md": SKILL,
            "commands/go.md": "---\nallowed-tools: Bash(git *)\n---\nGo: !`git status`\n",
            "agents/helper.md": "---\nname: helper\ndescription: Helps.\nhooks: {}\n---\nHelp.\n",
            "hooks/hooks.json": hooks("python3 ${CLAUDE_PLUGIN_ROOT}/guard.py", matcher="Bash"),
            ".mcp.json": {
                "mcpServers": {"db": {"command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"]}}
            },
            "guard.py": "print()\n",
            "server.py": "print()\n",
        },
    )


def codex(root: Path) -> Path:
    """A plug-in of Codex."""
    return write(
        root,
        paths={
            ".codex-plugin/plugin.json": {
                "name": "cx", "version": "2", "skills": "./skills/", "mcpServers": "./servers.json",
                "apps": "./.app.json", "hooks": "./own-hooks.json",
            },
            "skills/look/SKILL.md": SKILL,
            "servers.json": {"mcp_servers": {"api": {"url": "https://api.example/mcp", "bearer_token_env_var": "T"}}},
            "own-hooks.json": hooks("${PLUGIN_ROOT}/guard.sh"),
            "guard.sh": "exit 0\n",
            "commands/go.md": "Go.\n",
        },
    )  # fmt: skip


def gemini(root: Path) -> Path:
    """An extension of Gemini CLI."""
    return write(
        root,
        paths={
            "gemini-extension.json": {
                "name": "gx", "version": "3", "contextFileName": "GEMINI.md", "excludeTools": ["run_shell_command"],
                "settings": [{"name": "Key", "envVar": "KEY"}],
                "mcpServers": {"files": {"command": "node", "args": ["${extensionPath}${/}server.js"]}},
            },
            "GEMINI.md": "Obey.\n",
            "commands/gcs/sync.toml": 'prompt = "Sync !{ls}"\n',
            "hooks/hooks.json": hooks("${extensionPath}${/}guard.sh", "BeforeTool"),
            "policies/all.toml": "",
            "skills/look/SKILL.md": SKILL,
            "server.js": "1\n",
        },
    )  # fmt: skip
