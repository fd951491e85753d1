"""Turn options and configuration into objects."""
