"""Tool calls for models without native support: described as text, parsed from text."""
