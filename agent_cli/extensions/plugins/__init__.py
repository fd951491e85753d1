"""Plug-ins of Claude Code and Codex, and extensions of Gemini CLI: read, fetched, shown, stored."""
