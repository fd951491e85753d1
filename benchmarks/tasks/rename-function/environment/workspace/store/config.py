"""Configuration of the program."""

from . import files


class Config:
    """Values by name."""

    def __init__(self, values):
        self.values = values

    @classmethod
    def load(cls, path):
        """Return the configuration in a file."""
        return cls(files.load(path))
