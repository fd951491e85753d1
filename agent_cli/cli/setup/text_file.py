"""A text file that an option names, or what is wrong with it and what to do. Apart from the options' table, since
reading a file is no part of reading a command line."""

from pathlib import Path

from .options import UsageError


def text_of(option: str, name: str) -> str:
    """Return the text of a file.

    Raises:
        UsageError: it is missing, may not be read, or is no UTF-8 text.
    """
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        why = "there is no such file; check the path"
    except IsADirectoryError:
        why = "this is a folder; name a file in it"
    except UnicodeDecodeError as error:
        why = f"not UTF-8 text (byte {error.start}); save it as UTF-8"
    except (OSError, ValueError) as error:  # a path with a NUL
        why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise UsageError(f"{option} {name}: {why}")
