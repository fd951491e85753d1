"""Sub-agents: sessions of their own that work on a part of a task, within the rights and limits of their parent."""
