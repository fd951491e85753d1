"""Edit a text, such as a draft or a command awaiting approval, in the user's editor. A text is never lost: if it
cannot be read back, its file is kept and named."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

_USUAL = ("editor", "nano", "vi", "emacs")


class Edited(msgspec.Struct, frozen=True):
    """Result of an edit."""

    text: str
    problem: str = ""
    """Why the text is unchanged; empty if it was edited."""


class Editor:
    """A single blocking run of the editor; to be run in a thread."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._chosen = environ.get("VISUAL") or environ.get("EDITOR") or ""
        self._process: subprocess.Popen[bytes] | None = None

    def edit(self, text: str, suffix: str) -> Edited:
        """Return the text as the editor leaves it."""
        import shlex
        import shutil
        import tempfile

        try:
            command = shlex.split(self._chosen) or [each for each in _USUAL if shutil.which(each)][:1]
        except ValueError as error:
            return Edited(text, f"VISUAL or EDITOR cannot be understood: {self._chosen} ({error}).")
        if not command:
            return Edited(text, "There is no editor here; set VISUAL or EDITOR.")
        descriptor, name = tempfile.mkstemp(suffix, "agent-")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return self._run(command, Path(name), text)

    def _run(self, command: list[str], path: Path, text: str) -> Edited:
        try:
            self._process = subprocess.Popen([*command, str(path)])
            code = self._process.wait()
        except OSError as error:
            path.unlink(missing_ok=True)
            return Edited(text, f"{command[0]}: {error.strerror}. Set VISUAL or EDITOR to an editor that is here.")
        if code:
            return Edited(
                text, f"{command[0]} exited with code {code}, so the text is unchanged; see also {path}."
            )
        try:
            edited = path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            return Edited(text, f"{command[0]} removed the file, so the text is unchanged.")
        except (OSError, UnicodeDecodeError):
            return Edited(
                text, f"What {command[0]} wrote is not UTF-8 text, so the text is unchanged; see {path}."
            )
        path.unlink(missing_ok=True)
        return Edited(edited.removesuffix("\n"))

    def end(self) -> None:
        """Terminate the editor, because the program ends."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
