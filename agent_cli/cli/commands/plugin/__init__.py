"""`agent plugin`: plug-ins of Claude Code, Codex and Gemini CLI."""
