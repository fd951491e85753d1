"""Count the bytecodes of the package. Loads nothing of it, since a start is counted too."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

PACKAGE = str(Path(__file__).parent.parent / "agent_cli")


class Bytecodes:
    """Counts the bytecodes of the package that this thread executes: loops, which are no calls, count too."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> "Bytecodes | None":
        if event == "call":
            if not frame.f_code.co_filename.startswith(PACKAGE):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.made += event == "opcode"
        return self


@contextmanager
def traced() -> Iterator[Bytecodes]:
    bytecodes = Bytecodes()
    sys.settrace(bytecodes)
    try:
        yield bytecodes
    finally:
        sys.settrace(None)
