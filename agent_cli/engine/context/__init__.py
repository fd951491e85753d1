"""Contents of the context window: prompt, mentions, compaction, search."""
