"""Providers behind litellm, loaded when first used."""
