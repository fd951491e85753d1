"""Search names, contents and symbols of the workspace."""
