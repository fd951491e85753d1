"""Wire format Anthropic Messages."""
