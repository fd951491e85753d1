"""The strength that is reported is the one there is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.sandbox.mechanisms.select import Mechanism
from agent_cli.sandbox.probe import _advice, _Field, _objection, _Outcome, _strength, measure
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement, EnforcedLevel
from tests.rows import each_row
from tests.sandbox import trials
from tests.sandbox.test_confinement import ATTACKS, ATTACKS_INSIDE, MUST_WORK
from tests.sandbox.trials import Place, Setting

HAS = {(setting.uid, setting.means[0]) for setting in trials.settings() if setting.means}
FORBIDDEN: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    ((), ("bubblewrap", "landlock")),
    (("namespaces",), ("landlock",)),
    (("namespaces", "landlock"), ()),
]
CASES = [
    (Setting(uid, python, None, forbidden), next((name for name in best if (uid, name) in HAS), "none"))
    for uid, python in trials.users()
    for forbidden, best in FORBIDDEN
]


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    setting = request.getfixturevalue("setting")
    place = trials.prepare(setting, trials.folder_for(setting, False))
    yield place
    trials.remove(place)


@pytest.mark.parametrize(("setting", "expected"), CASES, ids=[str(setting) for setting, _ in CASES])
def test_the_strongest_mechanism_is_found_and_is_what_the_attacks_show(
    setting: Setting, expected: str, place: Place
) -> None:
    names = (
        "append to a file outside",
        "read a hidden folder",
        "read our variables",
        "connect to a server of ours",
    )
    commands = {name: (ATTACKS | ATTACKS_INSIDE | MUST_WORK)[name] for name in ("git", *names, *ATTACKS_INSIDE)}
    ready = {
        name: text.replace("{home}", str(place.home)).replace("{work}", str(place.workspace))
        for name, text in commands.items()
    }
    done = trials.run(setting, place, ready)
    mechanism, why, hides_inside, cuts_network = done["strength"]
    got = {name for name, (_, out) in done["outcomes"].items() if "GOT" in out or "SECRET" in out or "SEEN" in out}
    assert mechanism == expected
    assert (why == "") == (expected == "bubblewrap") and why.count("bubblewrap: ") <= 1, why
    if expected == "none":
        assert not done["outcomes"]
        assert ("namespaces" in why or "not installed" in why) and "landlock: " in why
        return
    assert not got & set(names) and done["outcomes"]["git"][0] == 0
    assert hides_inside == (not got & set(ATTACKS_INSIDE)) == (expected == "bubblewrap")
    assert cuts_network


async def test_measuring_leaves_nothing_behind_and_what_was_found_is_used(tmp_path: Path) -> None:
    runner = ProcessRunner()
    strength = await measure(runner, tmp_path)
    assert runner.enforced_level == strength and (runner.mechanism is not None) == strength.is_available
    assert os.listdir(tmp_path) == []
    if strength.is_available:
        running = await runner.start(
            ["/bin/sh", "-c", "echo x >inside; echo x >../outside"],
            cwd=tmp_path,
            env={},
            on_output=lambda _: None,
            confinement=Confinement(writable=(str(tmp_path),)),
        )
        assert await running.ended_within(60)
        assert (tmp_path / "inside").exists() and not (tmp_path.parent / "outside").exists()
    await runner.aclose()


async def test_without_a_sandbox_every_attempt_of_the_probe_succeeds(tmp_path: Path) -> None:
    """Or it would measure nothing."""
    from contextlib import ExitStack

    from agent_cli.sandbox import probe

    runner = ProcessRunner()
    out = bytearray()
    with ExitStack() as stack:
        field = _Field.laid_out(tmp_path, stack)
        running = await runner.start(
            [trials.sys.executable, "-I", "-S", "-c", probe._ATTEMPTS, *field.arguments],
            cwd=tmp_path,
            env={},
            on_output=out.extend,
        )
        assert await running.ended_within(60)
    await runner.aclose()
    assert set(out.decode().split()[1:]) == {
        *("own", "write", "hidden", "inside", "fixed", "socket", "network", "environ", "kill", "metadata")
    }


def test_a_mechanism_that_lets_something_through_is_not_used() -> None:
    everything = frozenset({"own", "write"})
    assert "could be written" in _objection(_Outcome(everything))
    assert _objection(_Outcome(frozenset({"hidden"}))) == "the workspace could not be written"
    assert _objection(_Outcome(frozenset({"own", "inside", "network", "kill"}))) == ""
    landlock = _strength(
        Mechanism("landlock"), frozenset({"own", "inside", "kill", "metadata"}), {"bubblewrap": "bubblewrap: x"}
    )
    assert landlock == EnforcedLevel("landlock", landlock.why, hides_inside=False, cuts_network=True)
    assert landlock.why.startswith("bubblewrap: x; landlock: commands can end other programs")


@each_row(
    ("said", "advice"),
    [
        (
            "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            "sysctl user.max_user_namespaces",
        ),
        (
            "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged"
            " user namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'.",
            "--security-opt seccomp=unconfined",
        ),
        ("bwrap: setting up uid map: Permission denied", "apparmor_restrict_unprivileged_userns=0"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
        ("bwrap: something new", "something new"),
    ],
)
def test_the_reason_says_what_can_be_done(said: str, advice: str) -> None:
    assert advice in _advice(said)


SHARING = [(uid, python) for uid, python in trials.users() if (uid, "bubblewrap") in HAS]


@pytest.mark.parametrize(("uid", "python"), SHARING, ids=["root" if not uid else "user" for uid, _ in SHARING])
def test_a_server_left_running_is_reached_by_the_next_command_and_by_nobody_else(uid: int, python: str) -> None:
    setting = Setting(uid, python, None)
    place = trials.prepare(setting, trials.folder_for(setting, False))
    try:
        done = trials.run(setting, place, {
            "serve": '"$PY" -I -m http.server -b 127.0.0.1 $PORT >/dev/null 2>&1 & echo started',
            "ask": "for i in $(seq 100); do (echo >/dev/tcp/127.0.0.1/$PORT) 2>/dev/null && break; sleep 0.02; done;"
            " exec 3<>/dev/tcp/127.0.0.1/$PORT; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3",
            "connect to a server of ours": ATTACKS["connect to a server of ours"],
        }, kept=("serve",))  # fmt: skip
    finally:
        trials.remove(place)
    assert done["strength"][0] == "bubblewrap"
    assert "200 OK" in done["outcomes"]["ask"][1]
    assert "GOT" not in done["outcomes"]["connect to a server of ours"][1]
    assert done["reached from outside"] is False
