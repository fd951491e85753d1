"""Records in files."""

from .files import load, save

__all__ = ["load", "save"]
