"""Change the user's configuration file: under a lock, and validated against the schema before it is replaced."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.setup import check_file
from agent_cli.config.layer import ConfigError
from agent_cli.config.yaml_file import file_content
from agent_cli.fs.files import file_lock, replace_file


def rewrite(path: Path, change: Callable[[str], str], place: Path | None = None) -> None:
    """Replace the configuration file by its changed text, once that is valid; errors are located in `place`.

    Raises:
        ConfigError, UsageError: the new text is invalid, or the file is write-protected; the file is unchanged.
    """
    refuse_for_the_model("change its configuration")
    target = Path(os.path.realpath(path))  # a symbolic link, as into a folder of dotfiles, is kept
    try:
        with file_lock(path):
            text = change(text_of(target))
            check_file(text, place or path)
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
            if not mode & 0o222:
                raise UsageError(f"{path} is write-protected")
            replace_file(target, text.encode(), mode=mode, durable=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def refuse_for_the_model(what: str) -> None:
    """Refuse an action reserved for the user.

    Raises:
        UsageError: a command of the model runs this program; the user's own commands lack the variable.
    """
    if os.environ.get("AGENT") == "agent-cli":
        raise UsageError(f"a command that the agent runs may not {what}")


def text_of(path: Path) -> str:
    """Return the text of a file; empty if it does not exist.

    Raises:
        ConfigError: it cannot be read, or is a pipe.
    """
    try:
        return file_content(path).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
