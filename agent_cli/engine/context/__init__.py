"""What goes into the window: prompt, mentions, compaction, search."""
