"""A review in the formats of other tools."""
