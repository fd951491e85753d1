"""Language models: one protocol for every provider."""
