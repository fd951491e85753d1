"""`agent serve --socket`: several clients, who may connect, and how the server ends."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.rpc import BOUND_S, Connected, serving
from tests.e2e.world import World, finish, shell, until
from tests.model.server import Call, Reply


@pytest.fixture
def place() -> Iterator[Path]:
    """A path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        yield Path(folder) / "agent.sock"


@pytest.fixture
def clients() -> Iterator[list[Connected]]:
    found: list[Connected] = []
    yield found
    for each in found:
        each.close()


def ended(process: "subprocess.Popen[str]", number: signal.Signals = signal.SIGTERM) -> str:
    """End a server; returns what it said."""
    process.send_signal(number)
    done = finish(process)
    assert done.code == 128 + number, done.err
    return done.err


def test_two_clients_share_a_session_and_the_first_answer_counts(
    world: World, place: Path, clients: list[Connected]
) -> None:
    world.script(shell("touch made"), Reply(text="Done."))
    process = serving(world, place)
    clients += [Connected(place), Connected(place)]
    one, two = (each.hello() for each in clients)
    session = one.open()
    joined = two.ask("session/open", session_id=session)
    assert (joined["session_id"], joined["started"]) == (session, False)
    turn = one.ask("user_input", session_id=session, text="go")["submission_id"]
    asked = [each.event("approval_requested") for each in (one, two)]
    assert asked[0] == asked[1]
    answer = {"session_id": session, "request_id": asked[0]["request_id"]}
    call = asked[0]["items"][0]["call_id"]
    yes, no = ({"decisions": [{"call_id": call, "allow": allow}]} for allow in (True, False))
    first = two.ask("approval_answer", **answer, **yes)["submission_id"]
    second = one.ask("approval_answer", **answer, **no)["submission_id"]
    for each in (one, two):
        assert each.event("approval_resolved")["outcome"] == "answered"
        assert each.end(first)["type"] == "operation_completed"
        assert each.end(second)["type"] == "operation_failed"
        assert each.end(turn)["text"] == "Done."
    assert (world.work / "made").exists()
    kinds = [[event["type"] for event in each.events() if event["seq"] > joined["seq"]] for each in (one, two)]
    assert [kind for kind in kinds[0] if kind != "text_delta"] == [
        kind for kind in kinds[1] if kind != "text_delta"
    ]
    ended(process)


def test_a_session_outlives_its_clients(world: World, place: Path, clients: list[Connected]) -> None:
    world.script(shell("touch made"), Reply(text="Done."))
    process = serving(world, place)
    first = Connected(place).hello()
    session = first.open()
    first.ask("user_input", session_id=session, text="go")
    asked = first.event("approval_requested")
    first.close()
    clients.append(Connected(place))
    again = clients[0].hello()
    assert again.ask("session/list")["open"] == [session]
    opened = again.ask("session/open", session_id=session, after=asked["seq"])
    assert opened["pending"] == [asked] and not opened["started"]
    decision = {"call_id": asked["items"][0]["call_id"], "allow": True}
    again.ask("approval_answer", session_id=session, request_id=asked["request_id"], decisions=[decision])
    assert again.event("turn_completed")["text"] == "Done."
    seqs = [each["seq"] for each in again.events()]
    assert seqs[0] == asked["seq"] + 1 and (world.work / "made").exists()
    since = again.ask("events/since", session_id=session, seq=0, limit=2)
    assert [each["seq"] for each in since["events"]] == [1, 2] and since["last"] >= seqs[-1]
    assert again.refused("session/open", session_id=session, after=10_000)["data"]["field"] == "after"
    ended(process)


def test_a_client_that_leaves_a_session_gets_no_more_of_it(
    world: World, place: Path, clients: list[Connected]
) -> None:
    world.script(Reply(text="Hello."))
    process = serving(world, place)
    clients += [Connected(place), Connected(place)]
    one, two = (each.hello() for each in clients)
    session = one.open()
    two.ask("session/open", session_id=session)
    two.ask("session/leave", session_id=session)
    one.prompt(session, "hi")
    two.ask("session/list")
    assert not [each for each in two.events() if each["type"] == "turn_started"]
    ended(process)


def test_a_client_killed_in_a_turn_leaves_the_turn_running(
    world: World, place: Path, clients: list[Connected]
) -> None:
    go = world.work / "go"
    os.mkfifo(go)
    world.script(shell("echo begun; cat go"), Reply(text="Done."))
    process = serving(world, place, "--mode", "yolo")
    clients.append(Connected(place))
    watcher = clients[0].hello()
    code = (
        "import json, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile('rwb', 0)\n"
        "def ask(n, method, **params):\n"
        "    f.write(json.dumps({'jsonrpc': '2.0', 'id': n, 'method': method, 'params': params}).encode() + b'\\n')\n"
        "    while (m := json.loads(f.readline())).get('id') != n: pass\n"
        "    return m['result']\n"
        "ask(1, 'initialize', protocol_version=1)\n"
        "session = ask(2, 'session/open')['session_id']\n"
        "ask(3, 'user_input', session_id=session, text='go')\n"
        "print(session, flush=True)\n"
        "sys.stdin.read()\n"
    )
    doomed = subprocess.Popen(
        [sys.executable, "-c", code, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert doomed.stdin is not None and doomed.stdout is not None
    session = doomed.stdout.readline().strip()
    watcher.ask("session/open", session_id=session, after=0)
    watcher.event("tool_output")
    doomed.kill()
    doomed.communicate()
    go.write_text("on\n", encoding="utf-8")
    assert watcher.event("turn_completed")["text"] == "Done."
    ended(process)


def test_a_client_that_never_reads_holds_nobody_up(world: World, place: Path, clients: list[Connected]) -> None:
    world.script(shell("yes 0123456789abcdef | head -c 5000000; echo; echo end"), Reply(text="Done."))
    process = serving(world, place, "--mode", "yolo")
    clients += [Connected(place), Connected(place)]
    reads, stuck = clients[0].hello(), clients[1]
    session = reads.open()
    stuck.send(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocol_version": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/open", "params": {"session_id": session, "after": 0}},
    )
    before = _private_kb(process.pid)
    assert reads.prompt(session, "go")["text"] == "Done."
    assert _private_kb(process.pid) - before < 40_000
    printed = "".join(each["text"] for each in reads.events() if each["type"] == "tool_output")
    late = stuck.event("turn_completed")  # whoever reads late gets the same
    assert late["text"] == "Done."
    assert "".join(each["text"] for each in stuck.events() if each["type"] == "tool_output") == printed
    assert len(stuck.events()) <= len(reads.events())
    ended(process)


def _private_kb(pid: int) -> int:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(int(row.split()[1]) for row in rows if row.startswith(("Private_Clean", "Private_Dirty")))


def test_the_socket_is_only_the_owners_from_its_birth(world: World, place: Path) -> None:
    modes: set[int] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            try:
                modes.add(os.lstat(place).st_mode & 0o7777)
            except FileNotFoundError:
                pass

    thread = threading.Thread(target=watch)
    thread.start()
    before = os.umask(0)
    try:
        process = serving(world, place)
    finally:
        os.umask(before)
    until(lambda: modes)
    ended(process)
    over.set()
    thread.join()
    assert modes == {0o600} and not place.exists()
    assert list(place.parent.iterdir()) == []


def test_other_users_are_refused(world: World) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        place = Path(name) / "agent.sock"
        process = serving(world, place)
        code = (
            "import os, socket, sys\n"
            "os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.settimeout(60)\n"
            "try: s.connect(sys.argv[1])\n"
            "except PermissionError: print('no entry'); sys.exit()\n"
            'try: s.sendall(b\'{"id": 1, "method": "session/list"}\\n\'); print(s.recv(100))\n'
            "except OSError: print(b'')\n"
        )

        def knock() -> str:
            done = subprocess.run(
                [sys.executable, "-c", code, str(place)], capture_output=True, text=True, timeout=BOUND_S
            )
            return done.stdout.strip() or done.stderr

        assert knock() == "no entry"
        os.chmod(place, 0o666)
        assert knock() == "b''"
        assert "refused: it is another user's" in ended(process)


def test_a_command_of_a_session_cannot_drive_the_server(world: World, clients: list[Connected]) -> None:
    place = world.home / "s"  # a command in the sandbox sees the home, not the temporary files of others
    (world.work / "drive.py").write_text(
        "import socket\n"
        "s = socket.socket(socket.AF_UNIX); s.settimeout(60)\n"
        f"s.connect({str(place)!r})\n"
        's.sendall(b\'{"id": 1, "method": "initialize", "params": {"protocol_version": 1}}\\n\')\n'
        "print('answer:', s.recv(1000))\n",
        encoding="utf-8",
    )
    world.script(
        shell(f"{sys.executable} drive.py"), shell(f"{sys.executable} drive.py & wait"), Reply(text="Done.")
    )
    process = serving(world, place, "--mode", "yolo", "--sandbox", "off")
    clients.append(Connected(place))
    one = clients[0].hello()
    one.prompt(one.open(), "go")
    results = [each["text"] for each in one.events() if each["type"] == "tool_call_finished"]
    assert len(results) == 2 and not any("agent-cli" in each for each in results), results
    assert "refused: it is a command run by a session" in ended(process)


def test_of_two_servers_exactly_one_serves(world: World, place: Path) -> None:
    world.measured()
    for _ in range(3):
        _race(world, place)


def _race(world: World, place: Path) -> None:
    started = [world.start("serve", "--socket", str(place)) for _ in range(4)]
    until(lambda: len([each for each in started if each.poll() is not None]) == len(started) - 1)
    refused = [finish(each) for each in started if each.poll() is not None]
    assert all(each.code == 2 and "another process serves there" in each.err for each in refused)
    (serves,) = (each for each in started if each.poll() is None)
    Connected(place).hello().close()
    ended(serves)
    assert not place.exists()


def test_a_socket_left_behind_is_replaced(world: World, place: Path) -> None:
    process = serving(world, place)
    process.kill()
    process.communicate()
    assert place.exists()
    process = world.start("serve", "--socket", str(place), stdin=subprocess.DEVNULL)

    def serves() -> bool:
        try:
            Connected(place).close()
        except ConnectionRefusedError:
            return False
        return True

    until(serves)
    ended(process)
    assert not place.exists()


def test_a_socket_that_is_another_ones_is_not_removed(world: World, place: Path) -> None:
    process = serving(world, place)
    place.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(place))
        ended(process)
        assert place.exists()


def test_places_where_no_socket_can_be(world: World, place: Path) -> None:
    open_to_all = world.home / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (world.home / "file").write_text("mine", encoding="utf-8")
    wrong = {
        str(open_to_all / "s"): "others can write",
        str(open_to_all / "inner" / "s"): "make the folder first",
        str(world.home / ("x" * 120)): "too long",
        str(world.home / "file"): "a file is in its place",
        str(world.home / "file" / "s"): "is not a folder",
        "/": "a file is in its place",
    }
    (open_to_all / "below").mkdir(mode=0o700)
    wrong[str(open_to_all / "below" / "s")] = "others can write"
    for name, says in wrong.items():
        done = world.run("serve", "--socket", name)
        assert (done.code, done.out) == (2, "") and says in done.err, (name, done.err)
    assert (world.home / "file").read_text(encoding="utf-8") == "mine"


def test_an_idle_session_is_closed_and_one_at_work_is_not(
    world: World, place: Path, clients: list[Connected]
) -> None:
    world.script(shell("touch never"))
    process = serving(world, place, "--idle-timeout", "0.2")
    one = Connected(place).hello()
    idle, asks = one.open(), one.open()
    one.ask("user_input", session_id=asks, text="go")
    one.event("approval_requested")
    one.close()
    clients.append(Connected(place))
    two = clients[0].hello()
    until(lambda: idle not in two.ask("session/list")["open"])
    assert two.ask("session/list")["open"] == [asks]
    assert two.ask("session/open", session_id=asks)["pending"]
    ended(process)


def test_the_end_of_the_server_is_told_to_all(world: World, place: Path, clients: list[Connected]) -> None:
    (world.work / "stubborn.sh").write_text("trap '' TERM INT HUP\necho begun\nsleep 600 &\nwait\nsleep 600\n")
    world.script(shell("sh stubborn.sh"))
    process = serving(world, place, "--mode", "yolo")
    clients += [Connected(place), Connected(place)]
    one, two = (each.hello() for each in clients)
    session = one.open()
    two.ask("session/open", session_id=session)
    one.ask("user_input", session_id=session, text="go")
    two.event("tool_output")
    process.send_signal(signal.SIGTERM)
    for each in (one, two):
        each.rest()
        assert each.event("turn_aborted")["stop_reason"] == "terminated"
        assert each.events()[-1]["type"] == "session_closed"
    assert finish(process).code == 143
    until(lambda: not world.alive())


def test_a_second_signal_ends_at_once(world: World, place: Path, clients: list[Connected]) -> None:
    world.script(
        Reply(calls=(Call("shell", {"command": "trap '' TERM INT HUP; echo begun; while :; do sleep 1; done"}),))
    )
    process = serving(world, place, "--mode", "yolo")
    clients.append(Connected(place))
    one = clients[0].hello()
    one.ask("user_input", session_id=one.open(), text="go")
    one.event("tool_output")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert finish(process).code in (130, 143)
    until(lambda: not world.alive())
    assert not place.exists()


def test_whoever_sees_the_socket_can_connect(world: World, place: Path) -> None:
    world.measured()
    for _ in range(5):
        process = world.start("serve", "--socket", str(place))
        while not place.exists():
            assert process.poll() is None
        Connected(place).hello().close()
        ended(process)
