"""The sandbox of a session: what was asked for, and what this machine was last measured to enforce.

A measurement takes some 40 ms, so it is kept until the machine starts anew; before the first command it is made
again, whatever was kept.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli import __version__
from agent_cli.engine.permissions.sandbox_profile import SandboxProfiles, SandboxRequest
from agent_cli.fs.files import make_private, replace_file
from agent_cli.sandbox.profile.confinement import EnforcedLevel

from .options import UsageError
from .setup import Setup

if TYPE_CHECKING:
    from agent_cli.sandbox.process.runner import ProcessRunner

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_BUILT_IN = "built-in default"


class _Kept(msgspec.Struct, frozen=True):
    """A measurement, and what it depends on."""

    key: tuple[str, ...]
    strength: EnforcedLevel


async def confining_for(setup: Setup, processes: "ProcessRunner") -> SandboxProfiles:
    """Confines the commands of a session.

    Raises:
        UsageError: a flag asks for a sandbox, and none can be had.
    """
    wanted = wanted_for(setup)

    async def measured(scratch: Path) -> EnforcedLevel:
        from agent_cli.sandbox.probe import measure

        strength = await measure(processes, scratch)
        keep(setup.state, strength)
        return strength

    strength = setup.once(_known_strength)
    confining = SandboxProfiles(
        setup.workspace,
        wanted,
        strength or EnforcedLevel("none"),
        measure=measured,
        own=(setup.config_dir, setup.state),
        cache=setup.project_state() / "cache" / "packages",
        scratch=processes.folder,
    )
    if strength is None:
        await confining.measure()
    if setup.chosen.text("sandbox") not in (None, "off") and not confining.strength.is_there:
        confining.close()
        raise UsageError(
            f"--sandbox {wanted.level}: no sandbox is available here ({confining.strength.why}). Without the"
            " option, commands that are not known to be read-only ask first; `agent doctor` says more."
        )
    return confining


def expected_level(setup: Setup) -> str | None:
    """Return the sandbox that a new session will have, in words; None where it is not known before the first
    measurement."""
    strength = setup.once(_known_strength)
    if strength is None:
        return None
    profiles = SandboxProfiles(setup.workspace, wanted_for(setup), strength)
    return profiles.describe(setup.config.mode, "", setup.rules())


def _known_strength(setup: Setup) -> EnforcedLevel | None:
    return EnforcedLevel("none") if setup.config.sandbox == "off" else kept(setup.state)


def wanted_for(setup: Setup) -> SandboxRequest:
    """Return the level that was chosen, and whether anybody asked for it."""
    return SandboxRequest(setup.config.sandbox, setup.loaded.place("sandbox") != _BUILT_IN)


async def measured_for(setup: Setup) -> EnforcedLevel:
    """Return what this machine enforces now, found out by trying.

    Raises:
        OSError: nothing can be written where temporary files go.
    """
    import tempfile

    from agent_cli.sandbox.probe import measure
    from agent_cli.sandbox.process.runner import ProcessRunner

    processes = ProcessRunner()
    try:
        with tempfile.TemporaryDirectory(prefix="agent-") as scratch:
            return await measure(processes, Path(scratch))
    finally:
        await processes.aclose()


def _key() -> tuple[str, ...]:
    from agent_cli.sandbox.mechanisms.bubblewrap import program

    found = program() or ""
    made = str(os.stat(found).st_mtime_ns) if found else ""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return (__version__, boot, str(os.geteuid()), found, made)


def kept(state: Path) -> EnforcedLevel | None:
    """Return what was measured since this machine started, by this user; None when that is not known."""
    try:
        kept = msgspec.json.decode((state / "sandbox.json").read_bytes(), type=_Kept)
        return kept.strength if kept.key == _key() and kept.key[1] else None
    except (OSError, msgspec.DecodeError):
        return None


def keep(state: Path, strength: EnforcedLevel) -> None:
    """Kept for the next start; where it cannot be, it is measured then."""
    with suppress(OSError):
        make_private(state)
        replace_file(state / "sandbox.json", msgspec.json.encode(_Kept(_key(), strength)))
