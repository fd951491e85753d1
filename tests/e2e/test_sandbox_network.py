"""Confined commands reach the hosts that rules allow, and nothing else, through the real program."""

import contextlib
import http.server
import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.world import World, shell, until
from tests.http_server import LoopbackServer
from tests.model.server import Call, Reply

CURL = "NO_PROXY= no_proxy= curl -sS -m 5 -f"
"""Which leaves what is on this machine to the proxy too."""
FETCHED = "the page of the host"


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(FETCHED)))
        self.end_headers()
        self.wfile.write(FETCHED.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def listening() -> Iterator[int]:
    """A web server on this machine; gives its port."""
    server = LoopbackServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


@pytest.fixture
def port() -> Iterator[int]:
    with listening() as number:
        yield number


def rules(
    world: World, port: int, allow: tuple[str, ...] = ("fetch(127.0.0.1)",), deny: tuple[str, ...] = ()
) -> None:
    config = {
        "tools": {"web": {"private_hosts": [f"127.0.0.1:{port}"]}},
        "permissions": {"allow": list(allow), "deny": list(deny)},
    }
    (world.config / "config.yaml").write_text(json.dumps(config), encoding="utf-8")


def told(world: World, *commands: str | Reply, mode: str = "auto-edit") -> list[str]:
    """What the model is told of each command."""
    world.script(*(shell(each) if isinstance(each, str) else each for each in commands), Reply(text="done"))
    done = world.run("run", "go", "--mode", mode, "--output-format", "json", timeout_s=60)
    assert done.code == 0, done.err
    return [record["text"] for record in world.records("tool_result")]


def sockets(pid: int) -> list[str]:
    """What listens in the network of a process, as the kernel has it."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return [line.split()[1] for line in lines if line.split()[3] == "0A"]


def test_an_allowed_host_is_reached_and_every_other_place_is_not(world: World, port: int) -> None:
    rules(world, port)
    urllib = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/').read().decode())"
    with listening() as other:
        found = told(
            world,
            f"{CURL} http://127.0.0.1:{port}/",
            f'NO_PROXY= no_proxy= python3 -c "{urllib}"',
            f"{CURL} http://127.0.0.1:{other}/",
            f"{CURL} http://other.example/",
            f"{CURL} --proxytunnel http://127.0.0.1:{port}/",
        )
    assert all(FETCHED in text for text in (found[0], found[1], found[4])), found
    assert not any(FETCHED in text for text in found[2:4]), found


PAST = (
    "curl -sS -m 2 --noproxy '*' http://127.0.0.1:{port}/",
    "curl -sS -m 2 http://127.0.0.1:{port}/",
    "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('G' 'OT')\"",
    "python3 -c \"import socket; socket.create_connection(('198.51.100.7', 80), 2); print('G' 'OT')\"",
    "python3 -c \"import socket; socket.create_connection(('2001:db8::1', 80), 2); print('G' 'OT')\"",
    "python3 -c \"import socket; print('G' 'OT', socket.getaddrinfo('example.org', 80))\"",
    "python3 -c \"import socket as s; x=s.socket(s.AF_INET, s.SOCK_DGRAM); x.sendto(b'x', ('198.51.100.7', 53)); print('G' 'OT')\"",
)


def test_nothing_leads_past_the_proxy(world: World, port: int) -> None:
    """By no proxy, past it, to an address of this machine or another, of version 6, by a name, over UDP."""
    rules(world, port, ("fetch",))
    commands = [command.format(port=port) for command in PAST]
    for text in told(world, *(f"sh -c '{each}'" if "'" not in each else each for each in commands)):
        assert "exit code 0" not in text and FETCHED not in text and "GOT" not in text, text


def test_without_a_rule_there_is_no_proxy(world: World, port: int) -> None:
    rules(world, port, ())
    (text,) = told(
        world,
        "env | grep -ci _proxy=; python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 3128))'",
    )
    assert text.startswith("0\n") and "refused" in text.lower(), text


def test_a_proxy_of_the_users_out_of_reach_is_in_nobodys_way(world: World) -> None:
    """Servers of commands answer directly, a failure counts as one of the network, and what a command names itself
    stays."""
    names = "import os; print('SET', {name for name in os.environ if name.lower() == 'http_proxy'})"
    fetching = "import urllib.request as u; u.urlopen('http://other.example/')"
    (world.work / "fetch.py").write_text(fetching, encoding="utf-8")
    (world.work / "names.py").write_text(names, encoding="utf-8")
    mine = dict.fromkeys(("HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
    commands = ("python3 names.py", "python3 fetch.py", "export http_proxy=http://127.0.0.1:8", "python3 names.py")
    world.script(*map(shell, commands), Reply(text="done"))
    world.run("run", "go", "--mode", "auto-edit", env=mine, timeout_s=60)
    none, failed, _, own = (record["text"] for record in world.records("tool_result"))
    assert none.startswith("SET set()"), none
    assert "The sandbox blocked the network" in failed, failed
    assert own.startswith("SET {'http_proxy'}"), own


def test_a_proxy_with_a_password_that_was_held_back_is_named_where_a_command_failed(world: World) -> None:
    rules(world, 1, ("shell(pip download *)",))
    failing = "pip download --no-such-option x"
    world.script(*map(shell, (failing, f"{failing} | cat", "false")), Reply(text="done"))
    proxy = {"HTTPS_PROXY": "http://me:pw@127.0.0.1:9"}
    world.run("run", "go", "--mode", "auto-edit", env=proxy, timeout_s=60)
    told = [
        "because of a password in it: HTTPS_PROXY" in record["text"] for record in world.records("tool_result")
    ]
    assert told == [True, True, False]


def test_a_refused_host_is_named(world: World, port: int) -> None:
    rules(world, port)
    (text,) = told(world, f"{CURL} http://other.example/")
    assert "The sandbox blocked the network (other.example)" in text, text


def test_a_deny_rule_wins(world: World, port: int) -> None:
    rules(world, port, ("fetch", "fetch(127.0.0.1)"), ("fetch(127.*)",))
    urllib = f"import urllib.request as u; print(u.urlopen('http' + '://127.0.0.1:{port}/').read().decode())"
    (text,) = told(world, f'NO_PROXY= no_proxy= python3 -c "{urllib}"')
    assert FETCHED not in text and "(127.0.0.1)" in text, text


def test_after_text_of_strangers_no_host_is_reached(world: World, port: int) -> None:
    rules(world, port)
    page = Reply(calls=(Call("web_fetch", {"url": f"http://127.0.0.1:{port}/"}),))
    urllib = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/').read().decode())"
    command = f'NO_PROXY= no_proxy= python3 -c "{urllib}"'
    before, _, after = told(world, command, page, command)
    assert FETCHED in before and FETCHED not in after, after


def test_what_a_program_for_pages_prints_is_text_of_strangers(world: World, port: int) -> None:
    rules(world, port)
    told(world, "curl -sS -m 2 http://other.example/", f"{CURL} 127.0.0.1:{port}")
    assert [record.get("untrusted", "") for record in world.records("tool_result")] == ["", "the output of curl"]


def test_commands_share_localhost_with_the_proxy_in_it(world: World, port: int) -> None:
    rules(world, port)
    _, reached, other = told(
        world,
        "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & sleep 1",
        "curl -sS -m 5 -o /dev/null -w '%{http_code}' http://localhost:8123/",
        f"{CURL} http://127.0.0.1:{port}/",
    )
    assert "200" in reached and FETCHED in other


def test_a_port_of_this_machine_that_a_rule_names_is_passed_on(world: World, port: int) -> None:
    read = f"python3 -c \"import socket; s=socket.create_connection(('127.0.0.1', {port}), 2); s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.makefile().read())\""
    rules(world, 1, (f"fetch(localhost:{port})",))
    (text,) = told(world, read)
    assert FETCHED in text, text


@pytest.mark.parametrize("deny", ["fetch(localhost)", "fetch(localhost:*)"])
def test_a_port_of_this_machine_that_a_rule_denies_is_not(world: World, port: int, deny: str) -> None:
    read = f"python3 -c \"import socket; s=socket.create_connection(('127.0.0.1', {port}), 2); s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.makefile().read())\""
    rules(world, 1, (f"fetch(localhost:{port})",), (deny,))
    (text,) = told(world, read)
    assert FETCHED not in text, text


def _kill_then(world: World, port: int, number: int) -> None:
    """Start a command that waits with a tunnel through the proxy, end the agent by a signal, look what is left."""
    rules(world, port)
    hold = (
        "import os,socket,time,pathlib; s=socket.create_connection(('127.0.0.1', 3128)); "
        f"s.sendall(b'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n'); print(s.recv(99)); "
        "pathlib.Path('up').write_text('x'); time.sleep(60)"
    )
    world.script(shell(f'python3 -c "{hold}"'), Reply(text="done"))
    process = world.start("run", "go", "--mode", "auto-edit")
    until((world.work / "up").exists)
    inside = next(pid for pid in world.alive(b"time.sleep(60)") if sockets(pid) == ["0100007F:0C38"])
    network = Path(f"/proc/{inside}/ns/net").readlink()
    process.send_signal(number)
    process.wait(10)
    until(lambda: not world.alive(), 5)
    until(lambda: not any(_network(folder) == network for folder in Path("/proc").glob("[0-9]*")), 2)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", 3128)) != 0


def _network(folder: Path) -> Path | None:
    try:
        return (folder / "ns" / "net").readlink()
    except OSError:
        return None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["asked", "killed"])
def test_with_the_agent_everything_is_closed(world: World, port: int, number: int) -> None:
    _kill_then(world, port, number)
