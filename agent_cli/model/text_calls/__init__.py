"""Tool calls for models that have none: written as text, read from text."""
