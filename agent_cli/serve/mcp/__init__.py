"""Offer tools and whole tasks to clients of the Model Context Protocol."""
