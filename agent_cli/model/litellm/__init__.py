"""Providers accessed through LiteLLM, loaded on first use."""
