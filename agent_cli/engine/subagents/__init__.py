"""Sub-agents: sessions of their own that do a part of a task, within the rights and limits of their parent."""
