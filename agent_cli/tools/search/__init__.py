"""Tools that search names, contents and symbols of the workspace."""
