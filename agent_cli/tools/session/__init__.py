"""Tools for the conversation itself: questions, plan, memory, earlier messages, the end."""
