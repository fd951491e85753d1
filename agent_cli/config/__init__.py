"""Configuration: schema, layers, where each value comes from."""
