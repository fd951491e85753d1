"""Forty planted secrets, a model that tries to read each of them in twenty-five ways, and the real program: nothing
of them may reach the model's provider, any file of ours but the private session, the output, or a command line."""

import base64
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.model.server import Call, Reply
from tests.protocol.secrets import ALNUM, HEX, join, key_block, some

from .world import World

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
    """file, history or variable"""


def _line(name: str, secret: str) -> str:
    return f"{name}={secret}\n"


def plant(world: World) -> tuple[list[Plant], dict[str, str]]:
    """Put forty secrets into the world: what they are, and the variables to set."""
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
    env = variables | {
        "DATABASE_URL": join("postgres://app:", variables["DATABASE_URL"], "@db/x"),
        "SECRETS_TEST": "1",
    }
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
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    for command in (
        ("init", "-q"),
        ("add", "old.env", ".gitignore"),
        ("commit", "-qm", "one"),
        ("rm", "-q", "old.env"),
        ("commit", "-qm", "two"),
    ):
        subprocess.run(["git", *identity, *command], cwd=world.work, env=env, check=True, timeout=20)
    return [Plant(f"history {number}", secret, "history", "history") for number, secret in enumerate(secrets)]


def attempts(planted: list[Plant]) -> Iterator[tuple[str, Call]]:
    """Name of the way, and call."""
    count = 0
    for each in planted:
        for way, call in WAYS.items() if each.kind == "file" else ():
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
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes())
                except OSError:
                    continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        for line in seen:
            leaks.look("command line", line[:40].decode("utf-8", "replace"), line)


def run(world: World, mode: str, each: int) -> tuple[Leaks, int]:
    """One of `each` attempts, all of them in one session; what leaked, and how many results there were."""
    planted, env = plant(world)
    assert len(planted) >= 40 and len(WAYS) >= 25
    tried = list(attempts(planted))[::each]
    assert {way for way, _ in tried} >= WAYS.keys()
    calls = [Call(call.name, call.arguments, id=f"call_{at}") for at, (_, call) in enumerate(tried)]
    replies = [Reply(calls=tuple(calls[at : at + 30])) for at in range(0, len(calls), 30)]
    world.script(*replies, Reply(text="All read."))
    leaks = Leaks(planted)
    prompt = "Look at @.env and @deploy/id_rsa, please"
    arguments = ("run", prompt, "--mode", mode, "--output-format", "stream-json", "--debug", "--max-turns", "100")
    with watching_command_lines(leaks):
        done = world.run(*arguments, env=env, timeout_s=120)
    assert done.result["text"] == "All read.", done.err[-2000:]
    results = {}
    for body in world.bodies():
        results.update({m["tool_call_id"]: str(m["content"]) for m in body["messages"] if m["role"] == "tool"})
    assert len(results) == len(calls)
    for at, (way, _) in enumerate(tried):
        leaks.look("request", way, results[f"call_{at}"].encode())
    rest = [m for m in world.bodies()[-1]["messages"] if m["role"] != "tool"]
    leaks.look("request", "other messages", repr(rest).encode())
    leaks.look("stdout", "", done.out.encode())
    leaks.look("stderr", "", done.err.encode())
    for path in world.state.rglob("*"):
        if path.is_file() and "sessions" not in path.relative_to(world.state).parts[:1]:
            leaks.look("file", path.relative_to(world.state).parts[0], path.read_bytes())
    return leaks, len(results)


def report(leaks: Leaks, mode: str, tries: int) -> str:
    """The table of what leaked."""
    lines = [f"mode {mode}, {tries} attempts: {sum(map(len, leaks.table.values()))} leaks"]
    for (kind, sink, how), names in sorted(leaks.table.items()):
        lines.append(f"  {len(names):>4}  {kind:<9} {sink:<12} {how}: {', '.join(names[:4])}")
    return "\n".join(lines)


HOLDS = {"ask": {"file", "variable", "history"}, "auto-edit": {"file", "variable", "history"}}
"""The kinds of secrets of which none gets out, by mode."""


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
def test_no_planted_secret_gets_out(world: World, mode: str, each: int) -> None:
    leaks, tries = run(world, mode, each)
    told = report(leaks, mode, tries)
    print(told)
    assert not [kind for kind, _, _ in leaks.table if kind in HOLDS[mode]], told


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
