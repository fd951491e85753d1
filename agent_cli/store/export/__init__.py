"""Export of a session as Markdown, HTML or JSON."""
