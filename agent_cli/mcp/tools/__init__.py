"""Offer the tools of servers to the model."""
