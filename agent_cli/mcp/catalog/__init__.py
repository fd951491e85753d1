"""Offers of servers, cached and pinned; tool names for the model; search among many tools."""
