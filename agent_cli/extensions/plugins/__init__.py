"""Plug-ins of Claude Code and Codex, and extensions of Gemini CLI: parsing, fetching, display and storage."""
