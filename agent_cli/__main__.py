"""The entry point looks at its arguments before it imports anything: `--version` answers at once, and no
command pays for what another needs."""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import gc
import os
import sys


def take_signals() -> None:
    """Let SIGINT and SIGQUIT end the program also in the background of a script: a shell ignores them there, and
    what is ignored stays ignored in a new program."""
    for number, action in ((_signal.SIGINT, _signal.default_int_handler), (_signal.SIGQUIT, _signal.SIG_DFL)):
        if _signal.getsignal(number) == _signal.SIG_IGN:
            _signal.signal(number, action)


def load_msgspec() -> None:
    """Load msgspec with the functions of `typing`, which it takes where typing_extensions is missing: the same
    here, without `inspect` and `ast`, which take a twentieth of the start."""
    if "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    import msgspec  # noqa: F401

    del sys.modules["typing_extensions"]


def _print_version() -> None:
    from agent_cli import __version__

    try:
        print(f"agent-cli {__version__}", flush=True)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"agent: cannot write to standard output: {error.strerror}", file=sys.stderr)
        os._exit(1)  # without writing the rest again
    sys.exit(0)


def _end_at_exit(codes: list[int]) -> None:
    """End the process with the first of some codes, once everything else is done that is registered for the exit.
    The interpreter is not torn down: a thread that still loads modules in the background can crash it then."""

    import atexit

    def end() -> None:
        if codes:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    codes[0] = codes[0] or 120
            os._exit(codes[0])

    atexit.register(end)


def main() -> None:
    """Run the command line; never returns."""
    codes: list[int] = []
    _end_at_exit(codes)
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        _print_version()
    gc.set_threshold(50_000, 20, 50)  # collecting among what is loaded, which stays, takes a tenth of the start
    take_signals()
    is_ours = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if is_ours:
        # An exception in the middle of loading can crash an extension module. Nothing is open yet.
        _signal.signal(_signal.SIGINT, lambda number, frame: os._exit(130))
    if arguments[:1] in (["run"], ["-p"]):
        from agent_cli.ui.early_signals import EARLY

        is_ours = False
        EARLY.hold()
    load_msgspec()
    from agent_cli.cli.main import run

    try:
        if is_ours:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        codes.append(run(arguments))
    except KeyboardInterrupt:  # before it has handlers of its own
        codes.append(130)
    sys.exit(codes[0])


if __name__ == "__main__":
    main()
