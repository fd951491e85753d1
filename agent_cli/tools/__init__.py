"""Tools for the model: the registry, plug-ins, and one file per tool."""
