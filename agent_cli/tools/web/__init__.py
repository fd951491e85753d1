"""Search the web and fetch pages."""
