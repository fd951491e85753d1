"""The sandbox of a session: the requested level, and the level that this machine enforced when last measured.

A measurement takes some 40 ms, so it is cached until the machine reboots; it is always repeated before the first
command.
"""

import os
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli import __version__
from agent_cli.engine.permissions.sandbox_profile import SandboxProfiles, SandboxRequest
from agent_cli.fs.files import make_private, read_regular, replace_file
from agent_cli.policy.rules.rule import Rules
from agent_cli.protocol.json_text import decode_json
from agent_cli.sandbox.profile.confinement import EnforcedLevel

from .options import UsageError
from .setup import Setup

if TYPE_CHECKING:
    from agent_cli.engine.permissions.active_policy import Permissions
    from agent_cli.sandbox.process.runner import ProcessRunner
    from agent_cli.sandbox.profile.confinement import Confinement

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_BUILT_IN = "built-in default"
_FEW_FILES = 64
"""A limit of open files below which a measurement may fail for that reason alone."""


class _Kept(msgspec.Struct, frozen=True):
    """A measurement with its cache key."""

    key: tuple[str, ...]
    strength: EnforcedLevel


async def confining_for(setup: Setup, processes: "ProcessRunner") -> SandboxProfiles:
    """Return the sandbox profiles for the commands of a session.

    Raises:
        UsageError: a flag requires a sandbox, and none is available.
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
    is_required = setup.chosen.text("sandbox") not in (None, "off")
    if strength is None or (is_required and not strength.is_available):
        await confining.measure()  # a container with this home may have measured less than there is here
    if is_required and not confining.enforced_level.is_available:
        confining.close()
        raise UsageError(
            f"--sandbox {wanted.level}: no sandbox is available here ({confining.enforced_level.why}). Without the"
            " option, commands that are not known to be read-only ask first; `agent doctor` says more."
        )
    return confining


def expected_level(setup: Setup) -> str | None:
    """Return the expected sandbox of a new session as text; None if it is unknown before the first measurement."""
    strength = setup.once(_known_strength)
    if strength is None:
        return None
    profiles = SandboxProfiles(setup.workspace, wanted_for(setup), strength)
    return profiles.describe(setup.config.mode, "", Rules(setup.rules))


def _known_strength(setup: Setup) -> EnforcedLevel | None:
    return EnforcedLevel("none") if setup.config.sandbox == "off" else kept(setup.state)


def wanted_for(setup: Setup) -> SandboxRequest:
    """Return the requested level, and whether it was set explicitly."""
    return SandboxRequest(setup.config.sandbox, setup.loaded.place("sandbox") != _BUILT_IN)


async def measured() -> EnforcedLevel:
    """Measure what this machine enforces now.

    Raises:
        OSError: the folder for temporary files is not writable.
    """
    import tempfile

    from agent_cli.sandbox.probe import measure
    from agent_cli.sandbox.process.runner import ProcessRunner

    async with aclosing(ProcessRunner()) as processes:
        with tempfile.TemporaryDirectory(prefix="agent-") as scratch:
            return await measure(processes, Path(scratch))


def _key() -> tuple[str, ...]:
    import resource

    from agent_cli.sandbox.mechanisms.bubblewrap import program

    found = program() or ""
    made = str(os.stat(found).st_mtime_ns) if found else ""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (__version__, boot, str(os.geteuid()), found, made, str(limit) if 0 <= limit < _FEW_FILES else "")


def kept(state: Path) -> EnforcedLevel | None:
    """Return the level measured for this user since the machine booted; None if unknown."""
    try:
        kept = decode_json(read_regular(state / "sandbox.json", follow=True), type=_Kept)
        return kept.strength if kept.key == _key() and kept.key[1] else None
    except (OSError, msgspec.DecodeError):
        return None


def keep(state: Path, strength: EnforcedLevel) -> None:
    """Cache a measurement for the next start, ignoring errors."""
    with suppress(OSError):
        make_private(state)
        replace_file(state / "sandbox.json", msgspec.json.encode(_Kept(_key(), strength)))


async def confinement_of_servers(permissions: "Permissions") -> "Confinement | None":
    """Return the restrictions of a sandboxed MCP server: those of a command, plus network access."""
    await permissions.measure_sandbox()
    return permissions.confinement("network") if permissions.is_confining else None
