"""Language models: one protocol, every provider."""
