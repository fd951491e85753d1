"""What is told of a failed command: by real failures, recorded and live."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.sandbox.denial_detection import Denial, detect_denial, detect_denied_part
from agent_cli.sandbox.mechanisms.select import Mechanism
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.sandbox.profile.environment import child_env
from tests.costs import assert_linear
from tests.fuzz import tries
from tests.rows import each_row
from tests.sandbox import trials

HOME, WORK = "/home/u", "/home/u/work"
CONFINED = Confinement(
    writable=(WORK,),
    read_only=(f"{WORK}/.git/hooks", f"{WORK}/.git/config"),
    hidden=(f"{HOME}/.ssh", f"{HOME}/.netrc", f"{WORK}/.env"),
    tmp="/home/u/state/tmp",
)
THERE = {"/", "/etc", "/home", HOME, WORK, f"{WORK}/.git", f"{WORK}/.git/config", f"{WORK}/.git/hooks", f"{WORK}/.env",
         f"{HOME}/.netrc", f"{HOME}/.ssh", f"{HOME}/.ssh/id", f"{HOME}/.bashrc", "/tmp", "/tmp/other", "/bin",
         "/bin/bash", "/usr/bin/ld", "/var/run/docker.sock"}  # fmt: skip


def as_user(path: str, mode: int) -> bool:
    """What an ordinary user may do there."""
    ours = path.startswith((HOME, "/tmp"))
    return path in THERE and (ours or mode != os.W_OK)


def as_root(path: str, mode: int) -> bool:
    return path in THERE


def told(code: int, output: str, may: Callable[[str, int], bool] = as_user) -> Denial | None:
    return detect_denial(code, output, CONFINED, WORK, may)


WRITES = [
    ("touch: cannot touch '/home/u/.profile': Read-only file system", "/home/u/.profile"),
    ("/bin/bash: line 1: /home/u/.bashrc: Read-only file system", "/home/u/.bashrc"),
    ("/bin/bash: line 1: .git/hooks/pre-commit: Read-only file system", f"{WORK}/.git/hooks/pre-commit"),
    ("mkdir: cannot create directory ‘/home/u/.config/x’: Read-only file system", "/home/u/.config/x"),
    ("mkdir: cannot create directory ‘/tmp/home/.cache’: Read-only file system", "/tmp/home/.cache"),
    ("mv: inter-device move failed: 'f' to '/home/u/m'; unable to remove target: Read-only file system", "/home/u/m"),
    ("mv: cannot move '.git' to '.git2': Device or resource busy", f"{WORK}/.git"),
    ("[WARNING] Failed to create parent directories for tracking file /home/u/.m2/repository/a/b.pom.lastUpdated\n"
     "[ERROR] The build could not read 1 project", "/home/u/.m2/repository/a/b.pom.lastUpdated"),
    ("[ERROR] Plugin a:b could not be resolved: Could not transfer artifact a:b:pom:2.5 from/to central (https://repo.x/m): "
     "/home/u/.m2/repository/a/b.pom.part.lock (No such file or directory) -> [Help 1]", "/home/u/.m2/repository/a/b.pom.part.lock"),
    ("[ERROR] Plugin a:b could not be resolved: Could not transfer artifact a:b:pom:2.5 from/to central (https://repo.x/m): "
     "/home/u/.m2/repository/a/c.pom.part.lock (Read-only file system) -> [Help 1]", "/home/u/.m2/repository/a/c.pom.part.lock"),
    ("[ERROR] Could not create local repository at /home/u/.m2/repository -> [Help 1]\n[ERROR] \n", "/home/u/.m2/repository"),
    (" WARN  Issue while reading \"/home/u/.netrc\". EACCES: permission denied, open '/home/u/.netrc'\n"
     "pnpm: ENOENT: no such file or directory, mkdir '/home/u/.local/share/pnpm'\n    at async Object.mkdir",
     "/home/u/.local/share/pnpm"),
    ("tee: /home/u/t: Read-only file system\na", "/home/u/t"),
    ("sed: couldn't open temporary file /home/u/sedUtGLLA: Read-only file system", "/home/u/sedUtGLLA"),
    ("error: could not write config file .git/config: Device or resource busy", f"{WORK}/.git/config"),
    ("error: could not lock config file /home/u/.gitconfig: Read-only file system", "/home/u/.gitconfig"),
    ("/usr/bin/ld: cannot open output file /home/u/a.out: Read-only file system\n"
     "collect2: error: ld returned 1 exit status", "/home/u/a.out"),
    ("Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n"
     "OSError: [Errno 30] Read-only file system: '/home/u/x'", "/home/u/x"),
    ("PermissionError: [Errno 13] Permission denied: '/home/u/x'", "/home/u/x"),
    ("node:fs:581\nError: EROFS: read-only file system, open '/home/u/x'\n    at Object.openSync (node:fs:581:18) {\n"
     "  errno: -30,\n  code: 'EROFS',\n  syscall: 'open',\n  path: '/home/u/x'\n}\n\nNode.js v20.20.2", "/home/u/x"),
    ('Error: unable to open database "/home/u/x.db": unable to open database file', "/home/u/x.db"),
    ("cp: cannot create regular file '/home/u/b': Read-only file system\nmake: *** [Makefile:2: install] Error 1",
     "/home/u/b"),
    ("error: could not create temp file /home/u/.rustup/tmp/x: Read-only file system (os error 30)",
     "/home/u/.rustup/tmp/x"),
    ("error: could not create home directory: '/home/u/.rustup'\n\nCaused by:\n    Read-only file system (os error 30)"
     "\n\nStack backtrace:\n   0: <E as anyhow::context::ext::StdError>::ext_context", "/home/u/.rustup"),
    ("Reading /home/u/.netrc\n1\n2\n3\nCaused by:\n    Read-only file system (os error 30)", ""),
    ("tar: f: Cannot open: Read-only file system\ntar: Exiting with failure status due to previous errors", ""),
    ("cannot open: Read-only file system at -e line 1.", ""),
]  # fmt: skip
READS = [
    ("cat: /home/u/.ssh/id: No such file or directory", f"{HOME}/.ssh/id"),
    ("cat: /home/u/.netrc: Permission denied", f"{HOME}/.netrc"),
    ("cat: .env: Permission denied", f"{WORK}/.env"),
    ("ls: cannot access '/home/u/.ssh/id': No such file or directory", f"{HOME}/.ssh/id"),
    ("cat: /tmp/other: No such file or directory", "/tmp/other"),
    ("wget: Cannot read /home/u/.netrc (Permission denied).", f"{HOME}/.netrc"),
    ("Error: EACCES: permission denied, open '/home/u/.netrc'\n    at Object.openSync (node:fs:581:18) {\n  errno: -13,"
     "\n  code: 'EACCES',\n  path: '/home/u/.netrc'\n}", f"{HOME}/.netrc"),
]  # fmt: skip
NETWORK = [
    ("curl: (6) Could not resolve host: example.org", "example.org"),
    ("fatal: unable to access 'https://example.org/x.git/': Could not resolve host: example.org", "example.org"),
    ("wget: unable to resolve host address ‘example.org’", "example.org"),
    ("ssh: Could not resolve hostname example.org: Temporary failure in name resolution", "example.org"),
    ("npm error code EAI_AGAIN\nnpm error syscall getaddrinfo\nnpm error errno EAI_AGAIN\nnpm error request to"
     " https://registry.example.org/left-pad failed, reason: getaddrinfo EAI_AGAIN registry.example.org",
     "registry.example.org"),
    ("ERROR: Could not find a version that satisfies the requirement six (from versions: none)\n"
     "ERROR: No matching distribution found for six", ""),
    ("error: no matching package named `rand` found\nlocation searched: registry `crates-io`\n"
     "As a reminder, you're using offline mode (--offline) which can sometimes cause surprising failures", ""),
    ("  can't checkout from 'https://github.com/a/b': you are in the offline mode (--offline)", "github.com"),
    ("  attempting to make an HTTP request, but --offline was specified", ""),
    ("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", ""),
    ("    sock.connect(sa)\nOSError: [Errno 101] Network is unreachable", ""),
    ("    _socket.socket.__init__(self, family, type, proto, fileno)\n"
     "PermissionError: [Errno 1] Operation not permitted", ""),
    (">       _socket.socket.__init__(self, family, type, proto, fileno)\n"
     "E       PermissionError: [Errno 1] Operation not permitted", ""),
    ("Error: listen EPERM: operation not permitted 127.0.0.1\n    at Server.setupListenHandle", ""),
    ("Error: listen EPERM: operation not permitted :::3000", ""),
    ("connect EPERM 192.0.2.7:443 - Local (undefined:undefined)", ""),
    ("go: example.org/x: Get \"https://proxy.example.org/x\": dial tcp: lookup proxy.example.org on [::1]:53:"
     " read: connection refused", "proxy.example.org"),
    ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
     "/var/run/docker.sock"),
]  # fmt: skip
OTHERS = [
    (1, 'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.', "privilege"),
    (1, "su: cannot set groups: Operation not permitted", "privilege"),
    (1, "unshare: unshare failed: Operation not permitted", "namespace"),
    (1, "bwrap: Creating new namespace failed: Operation not permitted", "namespace"),
    (1, "[1:1:FATAL:zygote_host_impl_linux.cc(127)] No usable sandbox! Update your kernel", "namespace"),
    (1, "strace: ptrace_get_syscall_info: PTRACE_TRACEME: Operation not permitted", "syscall"),
    (1, "ptrace: Operation not permitted.", "syscall"),
    (255, "Error:\nNo permission to enable task-clock event.", "syscall"),
    (1, "==9==LeakSanitizer has encountered a fatal error.\n==9==HINT: For debugging, try setting", "syscall"),
    (159, "", "syscall"),
]
UNRELATED = [
    (1, ""),
    (1, "cat: nothing: No such file or directory"),
    (1, "cat: /etc/nothing: No such file or directory"),
    (1, "touch: cannot touch '/etc/x': Permission denied"),
    (126, "/bin/bash: line 1: ./f: Permission denied"),
    (1, "PermissionError: [Errno 13] Permission denied: 'f'"),
    (7, "curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server"),
    (1, "ConnectionRefusedError: [Errno 111] Connection refused"),
    (1, "Permission denied"),
    (1, "error: Read-only file system is a phrase"),
    (1, "FAILED tests/test_x.py::test_read_only - AssertionError: assert 'Permission denied' in text"),
    (1, "Error: EACCES in text\n    at node:internal/main/eval_string:51:3"),
    (127, "/bin/bash: line 1: nosuchcmd: command not found"),
    (128, "fatal: 'origin' does not appear to be a git repository\nfatal: Could not read from remote repository."),
    (2, "make: *** No rule to make target 'nothing'.  Stop."),
    (
        1,
        " WARN  Issue while reading \"/home/u/.netrc\". EACCES: permission denied, open '/home/u/.netrc'\n1 failed",
    ),
    (
        1,
        "warning: unable to access '/home/u/.ssh/x': Permission denied\nerror: pathspec 'x' did not match any file",
    ),
    (1, "Error: ENOENT: no such file or directory, mkdir '/home/u/work/a/b'"),
    (1, "mkdir: cannot create directory ‘f’: File exists"),
    (1, "git@example.org: Permission denied (publickey)."),
    (1, "/bin/bash: line 1: /sys/kernel/x: Permission denied"),
    (0, "touch: cannot touch '/home/u/.profile': Read-only file system"),
]


@each_row(("output", "path"), WRITES)
def test_a_refused_write_is_told_with_its_path(output: str, path: str) -> None:
    assert told(1, output) == Denial("write", path)


@each_row(("output", "path"), READS)
def test_a_refused_read_is_told_with_its_path(output: str, path: str) -> None:
    assert told(1, output) == Denial("read", path)


@each_row(("output", "host"), NETWORK)
def test_a_cut_network_is_told_with_its_host(output: str, host: str) -> None:
    assert told(1, output) == Denial("network", host)


NO_KEYS = [
    "fatal: could not read Username for 'https://example.org': terminal prompts disabled",
    "git@example.org: Permission denied (publickey).\nfatal: Could not read from remote repository.",
    "u@example.org: Permission denied (publickey,password).",
    "Host key verification failed.\r\nfatal: Could not read from remote repository.",
]


@each_row("output", NO_KEYS)
def test_keys_that_were_out_of_sight_are_told_where_there_was_a_network(output: str) -> None:
    hidden = (f"{HOME}/.ssh/id", f"{HOME}/.gnupg/pubring.kbx")
    confinement = Confinement(writable=(WORK,), network="open", hidden=hidden)
    assert detect_denial(128, output, confinement, WORK, as_user) == Denial("keys")
    assert told(128, output) is None


def test_a_key_that_signs_is_told_if_there_is_one() -> None:
    output = "error: gpg failed to sign the data\nfatal: failed to write commit object"
    confinement = Confinement(writable=(WORK,), hidden=(f"{HOME}/.gnupg",))
    assert detect_denial(128, output, confinement, WORK, as_user) == Denial("keys")
    assert told(128, output) is None


def test_a_leak_check_that_cannot_run_is_told_with_the_way_out_whatever_the_line_ended_with() -> None:
    output = "==9==LeakSanitizer has encountered a fatal error.\nrc=1\n"
    for found in (detect_denied_part(output, CONFINED, WORK), detect_denial(1, output, CONFINED, WORK)):
        assert found is not None and found.kind == "syscall" and "ASAN_OPTIONS=detect_leaks=0" in found.subject


def test_a_file_that_was_refused_is_found_in_the_output_of_a_command_that_succeeded() -> None:
    output = "error: could not write config file .git/config: Device or resource busy\nSwitched to branch 'a'"
    assert detect_denied_part(output, CONFINED, WORK, as_user) == Denial("write", f"{WORK}/.git/config")
    for other in (
        "Permission denied",
        "cat: x: Permission denied",
        "error: Read-only file system is a phrase",
        "",
    ):
        assert detect_denied_part(other, CONFINED, WORK, as_user) is None


def test_an_open_network_is_never_to_blame() -> None:
    confinement = Confinement(writable=(WORK,), network="open")
    assert (
        detect_denial(6, "curl: (6) Could not resolve host: nothing.invalid", confinement, WORK, as_user) is None
    )


@each_row(("code", "output", "kind"), OTHERS)
def test_what_no_sandbox_allows_is_told(code: int, output: str, kind: str) -> None:
    found = told(code, output)
    assert found is not None and found.kind == kind


@each_row(("code", "output"), UNRELATED)
def test_other_failures_are_not_blamed_on_the_sandbox(code: int, output: str) -> None:
    assert told(code, output) is None


def test_what_the_user_could_not_do_either_is_not_blamed_on_it() -> None:
    said = "touch: cannot touch '/etc/x': Read-only file system"
    assert told(1, said) is None
    assert told(1, said, as_root) == Denial("write", "/etc/x")


MEANS = [setting.means for setting in trials.settings() if setting.uid == os.getuid() and setting.is_usual]


@pytest.mark.parametrize("means", MEANS, ids=lambda means: means[0])
async def test_real_failures_are_told_apart(means: trials.Means, tmp_path: Path) -> None:
    place = trials.prepare(trials.unconfined(), trials.folder_for(trials.unconfined(), False))
    home, work = str(place.home), str(place.workspace)
    confinement = Confinement(writable=(work,), hidden=(f"{home}/.ssh", f"{home}/.netrc"), tmp=str(place.tmp))
    runner = ProcessRunner()
    runner.mechanism = Mechanism(*means)
    expected = {
        f"touch {home}/new": Denial("write", f"{home}/new"),
        f"echo x >>{home}/.bashrc": Denial("write", f"{home}/.bashrc"),
        f"cp f {home}/f": Denial("write", f"{home}/f"),
        f"mkdir -p {home}/.cache/x": Denial("write", f"{home}/.cache"),
        f"git config --file {home}/.gitconfig user.name X": Denial("write", f"{home}/.gitconfig"),
        f"cat {home}/.ssh/id": Denial("read", f"{home}/.ssh/id"),
        f"cat {home}/.netrc": Denial("read", f"{home}/.netrc"),
        "git clone -q git://192.0.2.1/x y": Denial("network", "192.0.2.1"),
        "git status; false": None,
        "cat missing": None,
        "./f": None,
        "ls /nonexistent": None,
        "git checkout missing": None,
        "exit 7": None,
    }
    found = {}
    for command in expected:
        out = bytearray()
        running = await runner.start(
            ["/bin/bash", "-c", command],
            cwd=place.workspace,
            env=child_env(os.environ, {"LC_ALL": "C.UTF-8"}),
            on_output=out.extend,
            confinement=confinement,
        )
        assert await running.ended_within(60) and running.exit_code
        found[command] = detect_denial(running.exit_code, out.decode(), confinement, work)
    await runner.aclose()
    trials.remove(place)
    if means[0] == "landlock":  # the program only says that it could not connect
        expected["git clone -q git://192.0.2.1/x y"] = found["git clone -q git://192.0.2.1/x y"]
    assert found == expected


@each_row(
    "piece",
    [
        "connect a ",
        "getaddrinfo EAI_AGAIN ",
        "lookup x ",
        "'a' ",
        "a/b ",
        "Read-only file system ",
        ": x",
        "ptrace ",
    ],
)
def test_output_of_any_kind_costs_no_more_than_its_length(piece: str) -> None:
    assert_linear(lambda times: told(1, piece * times), 6_000)
    assert_linear(lambda times: told(1, (piece * 90 + "\n") * times), 12)


@given(st.text(st.sampled_from("/ab.:'‘\"~-\n \0[]()") | st.characters(), max_size=300), st.integers(0, 255))
@settings(max_examples=tries(60), deadline=None)
def test_no_output_makes_it_fail(text: str, code: int) -> None:
    for said in ("Permission denied", "Read-only file system", "No such file or directory"):
        told(code, f"{text}: {said}")
