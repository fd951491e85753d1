"""Skills: folders of instructions that the model or the user calls by name (the Agent Skills format)."""
