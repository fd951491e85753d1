"""A place to break out of, and what is tried there; `trial` is the agent that has it tried."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from agent_cli.sandbox.mechanisms import bubblewrap

ROOT = Path(__file__).parents[2]
ORDINARY = 1234
"""A user that owns nothing but what it is given."""
Means = tuple[str, str, bool, bool]


class Setting(NamedTuple):
    """Who has commands confined, and how."""

    uid: int
    python: str
    means: Means | None
    """None: as measured."""
    forbid: tuple[str, ...] = ()

    @property
    def is_usual(self) -> bool:
        """The way that would be chosen, or the one where that cannot be had."""
        if self.means is None:
            return False
        mechanism, _, new_users, own_proc = self.means
        return mechanism == "landlock" or (own_proc and new_users == (self.uid != 0))

    def __str__(self) -> str:
        mechanism, _, new_users, own_proc = self.means or ("measured", "", False, True)
        who = "root" if self.uid == 0 else "user"
        return "-".join(
            (mechanism, who, *(("users",) if new_users else ()), *(() if own_proc else ("bound",)), *self.forbid)
        )


class Place(NamedTuple):
    base: Path
    home: Path
    workspace: Path
    tmp: Path


_KNOWN = "AGENT_TESTS_SETTINGS"


@functools.cache
def users() -> list[tuple[int, str]]:
    """Those this machine lets us be, with an interpreter that they can run."""
    own = [(os.getuid(), sys.executable)]
    if os.getuid() != 0:
        return own
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        if _is_for_everybody(python):
            return [*own, (ORDINARY, python)]
    return own


def _is_for_everybody(python: str) -> bool:
    other: dict[str, Any] = {"user": ORDINARY, "group": ORDINARY, "extra_groups": []}
    try:
        done = subprocess.run(
            [python, "-c", "import agent_cli.sandbox.process.runner"], cwd=ROOT, env=_paths(), **other
        )
    except OSError:
        return False
    return done.returncode == 0


@functools.cache
def settings() -> list[Setting]:
    """Each mechanism for each user that can have it here, tried once for all processes of a run of tests."""
    if known := os.environ.get(_KNOWN):
        return [Setting(uid, python, tuple(means)) for uid, python, means in json.loads(known)]
    found = []
    program = bubblewrap.program()
    for uid, python in users():
        each: list[Means] = [("landlock", "", False, True)]
        if program:
            each += [("bubblewrap", program, True, True)]
            each += [("bubblewrap", program, uid != 0, uid == 0)]
        found += [Setting(uid, python, means) for means in each if works(uid, python, means)]
    os.environ[_KNOWN] = json.dumps([setting[:3] for setting in found])
    return found


def unconfined() -> Setting:
    """Ourselves, as if there was no sandbox."""
    return Setting(os.getuid(), sys.executable, ("none", "", False, True))


def copied(place: Place, name: str) -> Place:
    """A copy below it."""
    own = Place(place.base / name, place.base / name / "home", place.base / name / "work", place.tmp)
    shutil.copytree(place.home, own.home, symlinks=True)
    shutil.copytree(place.workspace, own.workspace, symlinks=True)
    return own


def works(uid: int, python: str, means: Means) -> bool:
    """Whether a mechanism can be had here at all."""
    with_it = Setting(uid, python, means)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        place = Place(Path(folder), Path(folder), Path(folder), Path(folder))
        done = run(with_it, place, {"it": "echo started"}, hidden=(), read_only=())
        return done["outcomes"]["it"][1] == "started\n"


def prepare(setting: Setting, base: Path) -> Place:
    """A home with secrets and a workspace with a repository, the user's own."""
    place = Place(base, base / "home", base / "work", base / "tmp")
    for folder in (place.home / ".ssh", place.home / ".config", place.workspace / "conf", place.tmp):
        folder.mkdir(parents=True)
    for path in (place.home / ".ssh" / "id", place.home / ".netrc", place.workspace / ".env"):
        path.write_text("TOPSECRET\n", encoding="utf-8")
    (place.workspace / "conf" / "secret.env").write_text("TOPSECRET\n", encoding="utf-8")
    (place.home / ".bashrc").write_text("original\n", encoding="utf-8")
    (place.home / ".gitconfig").write_text(
        "[user]\nname = T\nemail = t@example.org\n[init]\ndefaultBranch = main\n", encoding="utf-8"
    )
    (place.workspace / ".gitignore").write_text(".env\nconf/\nnew*\nv/\n*.db*\nlink*\n", encoding="utf-8")
    (place.workspace / "f").write_text("one\n", encoding="utf-8")
    for path in (base, *base.rglob("*")):
        os.chown(path, setting.uid, -1)
    git = "git -c safe.directory=* -c user.name=T -c maintenance.auto=false -c user.email=t@example.org".split()
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=place.workspace, check=True, capture_output=True)
    for path in (place.workspace / ".git").rglob("*"):
        os.chown(path, setting.uid, -1)
    os.chown(place.workspace / ".git", setting.uid, -1)
    return place


def folder_for(setting: Setting, private: bool) -> Path:
    """Below `/tmp`, of which a command sees its own, or elsewhere."""
    elsewhere = next(path for path in ("/var/cache", "/opt", str(Path.home())) if os.access(path, os.W_OK))
    base = Path(tempfile.mkdtemp(prefix="agent-trial-", dir="/tmp" if private else elsewhere)).resolve()
    base.chmod(0o755)
    return base


def remove(place: Place) -> None:
    shutil.rmtree(place.base, ignore_errors=True)


def run(
    setting: Setting,
    place: Place,
    commands: dict[str, str],
    *,
    hidden: tuple[str, ...] | None = None,
    read_only: tuple[str, ...] | None = None,
    env: dict[str, str] | None = None,
    kept: tuple[str, ...] = (),
    network: str = "none",
    is_bounded: bool = True,
) -> dict[str, Any]:
    """Have commands confined in a place; as `trial` tells it. What those `kept` leave running goes on."""
    if hidden is None:
        names = (place.home / ".ssh", place.home / ".netrc", place.workspace / ".env")
        hidden = (*map(str, names), str(place.workspace / "conf" / "secret.env"))
    if read_only is None:
        read_only = tuple(str(place.workspace / ".git" / name) for name in ("hooks", "config", "info"))
    task = {
        "forbid": setting.forbid,
        "means": setting.means,
        "scratch": str(place.base),
        "cwd": str(place.workspace),
        "commands": commands,
        "env": env or {},
        "kept": kept,
        "sockets": [
            str(place.home / "agent.sock"),
            str(place.home / "log.sock"),
            str(place.workspace / "host.sock"),
        ]
        if len(commands) > 1
        else [],
        "confinement": None
        if setting.means and setting.means[0] == "none"
        else {
            "writable": (str(place.workspace),) if is_bounded else (),
            "read_only": read_only,
            "hidden": hidden,
            "tmp": str(place.tmp),
            "network": network,
            "readable": () if is_bounded else (str(place.workspace),),
            "is_bounded": is_bounded,
        },
    }
    other = {} if setting.uid == os.getuid() else {"user": setting.uid, "group": setting.uid, "extra_groups": []}
    done = subprocess.run(
        [setting.python, "-m", "tests.sandbox.trial"], input=json.dumps(task), capture_output=True, text=True,
        timeout=100, cwd=ROOT, env={**_paths(), "HOME": str(place.home), "TRIAL_SECRET": "SEENENVIRON"}, **other,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def _paths() -> dict[str, str]:
    """Where another interpreter finds our libraries."""
    import msgspec

    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(msgspec.__file__).parents[1])}
