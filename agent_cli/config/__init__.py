"""Configuration: schema, layers with the origin of each value, trust, API keys."""
