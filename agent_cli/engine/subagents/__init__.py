"""Sub-agents: separate sessions that do part of a task, within the rights and limits of their parent."""
