"""What to do when standard output cannot be written: a full disk is reported, and the rest goes nowhere."""

import os
import sys


class OutputError(Exception):
    """Standard output cannot be written, such as on a full disk. Not an OSError: a command that handles the errors
    of its own files must not take this for one of them."""


def finish_output() -> None:
    """Write what is buffered for standard output. A closed pipe is no error: the reader has what it wanted.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
    except OSError as error:
        stop_writing(error)


def stop_writing(error: OSError) -> None:
    """Handle a failed write to standard output; nothing more is written to it.

    Raises:
        BrokenPipeError: nobody reads it any more.
        OutputError: it failed for another reason.
    """
    silence()
    if isinstance(error, BrokenPipeError):
        raise error
    raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def silence() -> None:
    """Redirect standard output to the null device, also what is still buffered."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
