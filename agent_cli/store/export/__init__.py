"""Export a session as Markdown, HTML or JSON."""
