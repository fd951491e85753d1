"""A review in the formats of others."""
