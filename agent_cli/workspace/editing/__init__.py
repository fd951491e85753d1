"""Find where a passage stands, and compute what a change does."""
