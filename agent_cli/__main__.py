"""The entry point looks at its arguments before it imports anything: `--version` answers at once, and no
command pays for what another needs."""

import sys


def main() -> None:
    """Run the command line; never returns."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from agent_cli import __version__

        print(f"agent-cli {__version__}")
        sys.exit(0)
    try:
        from agent_cli.cli.main import run

        code = run(arguments)
    except KeyboardInterrupt:  # while it was loading
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
