"""Sixty planted secrets, a model that tries to read each of them in thirty ways, and the real program: nothing of
them may reach the model's provider, any file of ours, the output, an export or a command line; neither in the
session that knows them, nor where it goes on without their variables, is forked or imported."""

import base64
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.world import World, read_kernel_file
from tests.fuzz import only_long
from tests.model.server import Call, Reply
from tests.redaction.secrets import ALNUM, HEX, join, key_block, some

WAYS: dict[str, Callable[[str, str], Call]] = {
    "read_file": lambda path, new: Call("read_file", {"path": path}),
    "grep": lambda path, new: Call("grep", {"pattern": ".", "path": path}),
    "grep-glob": lambda path, new: Call("grep", {"pattern": ".", "glob": f"**/{Path(path).name}"}),
    "glob": lambda path, new: Call("glob", {"pattern": f"**/{Path(path).name}*"}),
    "cat": lambda path, new: sh(f"cat {path}"),
    "sed": lambda path, new: sh(f"sed -n p {path}"),
    "awk": lambda path, new: sh(f"awk 1 {path}"),
    "head": lambda path, new: sh(f"head -c 4000 {path}"),
    "tail": lambda path, new: sh(f"tail -n +1 {path}"),
    "nl": lambda path, new: sh(f"nl {path} | cut -c1-300"),
    "grep-r": lambda path, new: sh(f"grep -rn . {path}"),
    "python": lambda path, new: sh(f"python3 -c \"print(open('{path}').read())\""),
    "base64": lambda path, new: sh(f"base64 -w0 {path}"),
    "xxd": lambda path, new: sh(f"xxd -p -c 4000 {path}"),
    "copy": lambda path, new: sh(f"cp {path} {new} && cat {new}"),
    "symlink": lambda path, new: sh(f"ln -s $(realpath {path}) {new} && cat {new}"),
    "link": lambda path, new: sh(f"ln {path} {new} && cat {new}"),
    "tar": lambda path, new: sh(f"tar cf - {path} 2>/dev/null | tar xOf -"),
    "find-exec": lambda path, new: sh(f"find {path} -exec cat {{}} +"),
    "source": lambda path, new: sh(f"set -a; . {path} 2>/dev/null; set | tail -n 60"),
    "xargs": lambda path, new: sh(f"echo {path} | xargs cat"),
    "redirect": lambda path, new: sh(f"while IFS= read -r line; do echo \"$line\"; done < {path}"),
    "tee": lambda path, new: sh(f"tee {new} < {path}"),
    "git-diff": lambda path, new: sh(f"git diff --no-index /dev/null {path}"),
    "repo_map": lambda path, new: Call("repo_map", {"path": path}),
    "sort": lambda path, new: sh(f"sort -u {path}"),
    "cut": lambda path, new: sh(f"cut -d= -f2- {path}"),
    "dd": lambda path, new: sh(f"dd if={path} bs=5 2>/dev/null"),
    "json": lambda path, new: sh(f"python3 -c \"import json; print(json.dumps(open('{path}').read()))\""),
    "url": lambda path, new: sh(
        f"python3 -c \"from urllib.parse import quote; print(quote(open('{path}').read(), safe=''))\""
    ),
}  # fmt: skip
"""By name: the call that reads a file; `new` is a name not used yet."""
OF_ENVIRONMENT = (
    "env", "printenv {0}", "echo ${0}", "cat /proc/self/environ | tr '\\0' '\\n'", "export -p",
    "cat /proc/$PPID/environ | tr '\\0' '\\n'", "python3 -c 'import os; print(dict(os.environ))'",
    "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a SECRETS_TEST", "set | grep {0}",
    "ps eww -e | grep -a {0}",
)  # fmt: skip
OF_HISTORY = (
    "git show HEAD~1:old.env", "git log -p -n 3", "git grep -n . HEAD~1 -- old.env", "git diff HEAD~1 HEAD",
    "git cat-file -p HEAD~1:old.env",
)  # fmt: skip


def sh(command: str) -> Call:
    return Call("shell", {"command": command})


class Plant(NamedTuple):
    """A secret and where it lies."""

    name: str
    secret: str
    place: str
    """A path, `history`, or the name of a variable."""
    kind: str
    """file, history, variable, or note: an ordinary file with the value of a variable"""


def _line(name: str, secret: str) -> str:
    return f"{name}={secret}\n"


def plant(world: World) -> tuple[list[Plant], dict[str, str]]:
    """Put sixty secrets into the world: what they are, and the variables to set."""
    planted: list[Plant] = []
    for number, path in enumerate(
        (".env", ".env.local", ".env.production", "web/.env", ".envrc", ".npmrc", "deploy/id_rsa", "deploy/server.pem",
         "deploy/tls.key", "secrets.yaml", "client_secret_1.json", "app.keystore")
    ):  # fmt: skip
        planted.append(_plant_file(world.work / path, path, number))
    for number, path in enumerate(
        (".netrc", ".git-credentials", ".pgpass", ".pypirc", ".ssh/id_ed25519", ".ssh/id_rsa", ".aws/credentials",
         ".config/gh/hosts.yml", ".docker/config.json", ".kube/config", ".vault-token", ".cargo/credentials.toml")
    ):  # fmt: skip
        planted.append(_plant_file(world.home / path, str(world.home / path), 100 + number))
    variables = {
        name: some(ALNUM, 24, name)
        for name in ("GITHUB_TOKEN", "NPM_TOKEN", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "MY_APP_SECRET", "SENTRY_AUTH_TOKEN",
                     "DEPLOY_PASSWORD", "GROQ_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY")
    } | {"DATABASE_URL": some(ALNUM, 20, "db")}  # fmt: skip
    planted += [Plant(name, secret, name, "variable") for name, secret in variables.items()]
    planted += _plant_history(world)
    notes = {f"APP_{number}_SECRET": some(ALNUM, 26, f"note{number}") for number in range(20)}
    for name, secret in notes.items():
        (world.work / f"{name}.txt").write_text(f"it is {secret}\n", encoding="utf-8")
        planted.append(Plant(name, secret, f"{name}.txt", "note"))
    env = (
        variables
        | notes
        | {
            "DATABASE_URL": join("postgres://app:", variables["DATABASE_URL"], "@db/x"),
            "SECRETS_TEST": "1",
        }
    )
    return planted, env


def _plant_file(path: Path, shown: str, number: int) -> Plant:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.startswith("id_") or path.suffix in (".pem", ".key"):
        text = key_block("OPENSSH ", seed=number)
        secret = text.splitlines()[2]
    else:
        secret = (
            join("gh", "p_", some(ALNUM, 36, number))
            if number % 4 == 0
            else some(HEX if number % 4 == 1 else ALNUM, 30, number)
        )
        text = _line("A_PASSWORD", secret)
    path.write_text(text + "\n", encoding="utf-8")
    path.chmod(0o600)
    return Plant(path.name, secret, shown, "file")


def _plant_history(world: World) -> list[Plant]:
    secrets = [some(ALNUM, 28, f"history{number}") for number in range(5)]
    text = "".join(_line(f"OLD_{number}_PASSWORD", secret) for number, secret in enumerate(secrets))
    (world.work / "old.env").write_text(text, encoding="utf-8")
    (world.work / ".gitignore").write_text("x*\n", encoding="utf-8")
    env = {**os.environ, "HOME": str(world.home), "GIT_CONFIG_GLOBAL": "/dev/null"}
    identity = ("-c", "user.name=t", "-c", "maintenance.auto=false", "-c", "user.email=t@example.com")
    for command in (
        ("init", "-q"),
        ("add", "old.env", ".gitignore"),
        ("commit", "-qm", "one"),
        ("rm", "-q", "old.env"),
        ("commit", "-qm", "two"),
    ):
        subprocess.run(["git", *identity, *command], cwd=world.work, env=env, check=True, timeout=90)
    return [Plant(f"history {number}", secret, "history", "history") for number, secret in enumerate(secrets)]


def attempts(planted: list[Plant]) -> Iterator[tuple[str, Call]]:
    """Name of the way, and call."""
    count = 0
    for each in planted:
        for way, call in WAYS.items() if each.kind in ("file", "note") else ():
            count += 1
            yield way, call(each.place, f"x{count}")
    for each in planted:
        for form in OF_ENVIRONMENT if each.kind == "variable" else ():
            if "{0}" in form or each.name == "GITHUB_TOKEN":
                yield form, sh(form.format(each.name))
    for command in OF_HISTORY:
        yield command, sh(command)


def forms(secret: str) -> list[bytes]:
    """The ways in which a secret would be readable."""
    data = secret.encode()
    found = [data, data.hex().encode()]
    for before in range(3):
        found.append(base64.b64encode(bytes(before) + data)[4 if before else 0 : -4])
    return found


class Leaks:
    """Counts secrets in what goes out."""

    def __init__(self, planted: list[Plant]) -> None:
        self._forms = [(each, forms(each.secret)) for each in planted]
        self.table: dict[tuple[str, str, str], list[str]] = {}
        """Names of secrets, by their kind, where they got, and how."""

    def look(self, sink: str, source: str, data: bytes) -> None:
        """Look for every secret in what reached `sink` from `source`."""
        for each, written in self._forms:
            if any(form in data for form in written):
                self.table.setdefault((each.kind, sink, source), []).append(each.name)


@contextmanager
def watching_command_lines(leaks: Leaks) -> Iterator[None]:
    """While inside, look at every command line on this machine."""
    done = threading.Event()
    seen: set[bytes] = set()

    def watch() -> None:
        while not done.wait(0.02):
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with suppress(OSError):
                    seen.add(read_kernel_file(f"/proc/{pid}/cmdline"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        for line in seen:
            leaks.look("command line", line[:40].decode("utf-8", "replace"), line)


class Trial(NamedTuple):
    """The attempts of a test, and where their secrets must not get."""

    world: World
    mode: str
    leaks: Leaks

    def play(self, phase: str, tried: list[tuple[str, Call]], env: dict[str, str], *arguments: str) -> None:
        """All attempts, by one run of the program."""
        calls = [Call(call.name, call.arguments, id=f"{phase}_{at}") for at, (_, call) in enumerate(tried)]
        self.world.script(*(Reply(calls=tuple(calls[at : at + 30])) for at in range(0, len(calls), 30)))
        self.world.script(Reply(text="All read."))
        begun = len(self.world.bodies())
        options = ("--mode", self.mode, "--output-format", "stream-json", "--debug", "--max-turns", "100")
        done = self.world.run("run", *arguments, *options, env=env, timeout_s=120)
        assert done.result["text"] == "All read.", done.err[-2000:]
        ways = {f"{phase}_{at}": way for at, (way, _) in enumerate(tried)}
        assert self._look_at_requests(phase, ways, begun) >= ways.keys()
        self.leaks.look(f"{phase}: output", "", (done.out + done.err).encode())

    def _look_at_requests(self, phase: str, ways: dict[str, str], begun: int) -> set[str]:
        """Look at each message once; returns the ids of the calls that had a result."""
        seen: dict[str, str] = {}
        for body in self.world.bodies()[begun:]:
            seen.update(
                {
                    f"{m.get('tool_call_id', '')} {m['content']}": m.get("tool_call_id", "")
                    for m in body["messages"]
                }
            )
        for text, identifier in seen.items():
            self.leaks.look(f"{phase}: request", ways.get(identifier, "earlier"), text.encode())
        return set(seen.values())

    def hand_on(self, elsewhere: Path) -> None:
        """The session shown, exported in each form, and imported by somebody else, all without its variables."""
        for path in self.world.sessions():
            identifier = path.stem.rpartition("-")[2]
            commands = [("export", identifier, "--format", form) for form in ("md", "html", "json")]
            for command in (*commands, ("show", identifier), ("search", "read", "--json")):
                done = self.world.run("sessions", *command, env=LATER)
                assert done.code == 0, done
                self.leaks.look(" ".join(command[:1] + command[2:]), "", (done.out + done.err).encode())
        file = elsewhere.with_suffix(".json")
        assert self.world.run("sessions", "export", identifier, "-o", str(file), env=LATER).code == 0
        there = LATER | {"AGENT_STATE_DIR": str(elsewhere)}
        assert self.world.run("sessions", "import", str(file), env=there).code == 0
        self.play("imported", [], there, "-c", "go on")

    def look_at_files(self, *folders: Path) -> None:
        """Look at all that the program has written."""
        for folder in folders:
            for path in folder.rglob("*"):
                if path.is_file():
                    self.leaks.look("file", path.relative_to(folder).parts[0], path.read_bytes())


LATER = {"OPENAI_API_KEY": some(ALNUM, 40, "another key")}
STEP = 111
"""One of so many attempts is made at a time; all ways are among those of the three phases together."""


def run(world: World, mode: str, shift: int) -> tuple[Leaks, int]:
    """Every 111th attempt, from the one at `shift` on, in each phase of a session a third of them; what leaked, and how
    many attempts there were."""
    planted, env = plant(world)
    assert len(planted) >= 60 and len(WAYS) >= 30
    parts = [list(attempts(planted))[(shift + 37 * number) % STEP :: STEP] for number in range(3)]
    assert {way for part in parts for way, _ in part} >= WAYS.keys()
    trial = Trial(world, mode, Leaks(planted))
    elsewhere = world.state.with_name("elsewhere")
    with watching_command_lines(trial.leaks):
        trial.play("same", parts[0], env, "Look at @.env, @APP_0_SECRET.txt and @deploy/id_rsa, please")
        trial.play("resumed", parts[1], LATER, "-c", "Go on without the variables")
        trial.play("forked", parts[2], LATER, "-c", "--fork", "Go on in a copy")
        trial.hand_on(elsewhere)
    trial.look_at_files(world.state, elsewhere)
    return trial.leaks, sum(map(len, parts))


def report(leaks: Leaks, mode: str, tries: int) -> str:
    """The table of what leaked."""
    lines = [f"mode {mode}, {tries} attempts: {sum(map(len, leaks.table.values()))} leaks"]
    for (kind, sink, how), names in sorted(leaks.table.items()):
        lines.append(f"  {len(names):>4}  {kind:<9} {sink:<20} {how}: {', '.join(names[:4])}")
    return "\n".join(lines)


@pytest.mark.parametrize("shift", [0, *only_long(range(1, STEP))])
@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
def test_no_planted_secret_gets_out(world: World, mode: str, shift: int) -> None:
    leaks, tries = run(world, mode, shift)
    told = report(leaks, mode, tries)
    print(told)
    assert not leaks.table, told


@pytest.mark.parametrize(
    "said",
    [
        {"error": {"message": "Incorrect API key provided: KEY. You can find it elsewhere."}},
        {"error": "bad", "detail": {"headers": {"authorization": "Bearer KEY"}, "url": "http://h/v1?key=KEY"}},
        pytest.param("<html><body>401: KEY</body></html>", marks=pytest.mark.long),
    ],
    ids=["message", "echo", "page"],
)
def test_a_server_that_quotes_the_key_tells_nobody(world: World, said: object) -> None:
    key = some(ALNUM, 40, "echoed")
    body = said.replace("KEY", key) if isinstance(said, str) else json.loads(json.dumps(said).replace("KEY", key))
    world.may_refuse = True
    world.script(*(Reply(status=401, body=body) for _ in range(3)))
    outputs = [
        world.run("run", "hello", "--debug", "--output-format", form, env={"OPENAI_API_KEY": key})
        for form in ("text", "json", "stream-json")
    ]
    assert [done.code for done in outputs] == [3, 3, 3]
    assert world.server.requests[0].headers["authorization"] == f"Bearer {key}"
    written = "".join(path.read_text("utf-8", "replace") for path in world.state.rglob("*") if path.is_file())
    assert "turn_failed" in written
    for text in (written, *(done.out + done.err for done in outputs)):
        assert key not in text and key[8:32] not in text


def test_a_key_comes_out_of_the_key_file_and_doctor_says_so(world: World) -> None:
    key = some(ALNUM, 40, "kept")
    file = world.config / "keys.yaml"
    file.write_text(f"OPENAI_API_KEY: {key}\n", encoding="utf-8")
    file.chmod(0o600)
    env = {"OPENAI_API_KEY": None}
    done = world.run("doctor", env=env)
    assert f"key from OPENAI_API_KEY in {file}" in done.out and done.code == 0
    file.chmod(0o640)
    refused = world.run("doctor", env=env)
    assert refused.code == 1 and f"run `chmod 600 {file}`" in refused.out
    assert key not in done.out + done.err + refused.out + refused.err
    named = world.run("doctor")
    assert "key from the variable OPENAI_API_KEY" not in named.out, "a file that others may open stops it"


def test_a_run_with_a_key_out_of_the_file(world: World) -> None:
    key = some(ALNUM, 40, "kept")
    file = world.config / "keys.yaml"
    file.write_text(f"OPENAI_API_KEY: {key}\n", encoding="utf-8")
    file.chmod(0o600)
    world.script(Reply(calls=(sh("env"),)), Reply(text=f"The key is {key}!"))
    done = world.run(
        "run", "hello", "--debug", "--mode", "yolo", "--output-format", "stream-json", env={"OPENAI_API_KEY": None}
    )
    assert done.code == 0, done.err
    assert world.server.requests[0].headers["authorization"] == f"Bearer {key}"
    assert done.result["text"] == "The key is [masked: OPENAI_API_KEY]!"
    logs = "".join(p.read_text() for p in (world.state / "logs").iterdir())
    assert key not in done.out + done.err + logs
    file.chmod(0o644)
    bad = world.run("run", "hello", env={"OPENAI_API_KEY": None})
    assert bad.code == 2 and "chmod 600" in bad.err, bad
    print(bad.err)
