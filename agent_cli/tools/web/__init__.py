"""Tools that search the web and fetch pages."""
