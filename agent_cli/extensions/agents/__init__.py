"""Sub-agent definitions in files of this agent and of others."""
