"""The entry point looks at its arguments before it imports anything: `--version` answers at once, and no
command pays for what another needs."""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import os
import sys


def take_signals() -> None:
    """Let SIGINT and SIGQUIT end the program also in the background of a script: a shell ignores them there, and
    what is ignored stays ignored in a new program."""
    for number, action in ((_signal.SIGINT, _signal.default_int_handler), (_signal.SIGQUIT, _signal.SIG_DFL)):
        if _signal.getsignal(number) == _signal.SIG_IGN:
            _signal.signal(number, action)


def main() -> None:
    """Run the command line; never returns."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from agent_cli import __version__

        print(f"agent-cli {__version__}")
        sys.exit(0)
    take_signals()
    if arguments[:1] in (["run"], ["-p"]):
        from agent_cli.ui.headless.early_signals import EARLY

        EARLY.hold()
    is_ours = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if is_ours:
        # An exception in the middle of loading can crash an extension module. Nothing is open yet.
        _signal.signal(_signal.SIGINT, lambda number, frame: os._exit(130))
    from agent_cli.cli.main import run

    try:
        if is_ours:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        code = run(arguments)
    except KeyboardInterrupt:  # before it has handlers of its own
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
