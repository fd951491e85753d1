"""`agent mcp`: servers are listed, added, removed, shown, trusted and tested from the shell."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import yaml

from tests.cli.running import Commands, said
from tests.e2e.person import Person
from tests.e2e.world import Done, World, finish
from tests.mcp.client.oauth_server import oauth_server
from tests.rows import each_row

FAULT_SERVER = Path(__file__).parents[2] / "mcp" / "servers" / "fault_server.py"
RUN = [sys.executable, str(FAULT_SERVER)]


def one(world: World, *arguments: str) -> Done:
    """What the program says to one command line."""
    (done,) = said(world, ["mcp", *arguments])
    return done


def own(world: World) -> dict[str, Any]:
    """The servers in the user's configuration file."""
    path = world.config / "config.yaml"
    found: dict[str, Any] = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("mcp_servers", {})
    return found


def of_project(world: World, **servers: Any) -> None:
    (world.work / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


@each_row(
    ("line", "entry"),
    [
        ("x npx -y thing --flag", {"command": "npx", "args": ["-y", "thing", "--flag"]}),
        ("x -- npx -y thing", {"command": "npx", "args": ["-y", "thing"]}),
        ("-e A=b=c x docker run -e T img", {"command": "docker", "args": ["run", "-e", "T", "img"], "env": {"A": "b=c"}}),
        ("x --env A=1 -e B=2 -- prog", {"command": "prog", "env": {"A": "1", "B": "2"}}),
        ("--transport stdio x prog", {"command": "prog"}),
        ("--transport http x https://a.b/mcp", {"url": "https://a.b/mcp"}),
        ("-t sse x https://a.b/sse -H X-Team:\u00a0red", {"type": "sse", "url": "https://a.b/sse", "headers": {"X-Team": "red"}}),
        ("x --url http://127.0.0.1:1/mcp -s user", {"url": "http://127.0.0.1:1/mcp"}),
        ("x prog ${TOKEN}", {"command": "prog", "args": ["${TOKEN}"]}),
    ],
)  # fmt: skip
def test_a_server_is_added_in_every_usual_spelling(
    world: World, agent: Commands, line: str, entry: dict[str, Any]
) -> None:
    (world.config / "config.yaml").unlink(missing_ok=True)
    done = agent.run("mcp", "add", *(word.replace("\u00a0", " ") for word in line.split(" ")))
    assert (done.code, done.err) == (0, ""), done.err
    assert own(world) == {"x": entry} and "`agent mcp test x` tries it" in done.out


def test_what_is_wrong_with_a_command_line_is_said_and_nothing_is_written(world: World) -> None:
    lines = {
        "a/b prog": "use letters, digits, -, _ and .",
        "x": "give a URL, or a command after the name",
        "x --url ftp://a": "must begin with http:// or https://",
        "x ftp://a": "must begin with http:// or https://",
        "x https://[a": "its host or port cannot be read",
        "x https://a.b:99999/mcp": "its host or port cannot be read",
        "x https:///mcp": "its host or port cannot be read",
        "x https://a.b/ more": "a URL takes no arguments: more",
        "-t http x prog": "--transport http needs a URL",
        "-t stdio x https://a.b": "--transport stdio needs a command",
        "-t ws x https://a.b": "'ws' is not one of stdio, http, sse",
        "-e A x prog": "write NAME=VALUE, not 'A'",
        "-H A x https://a.b": "write \"NAME: VALUE\", not 'A'",
        "-H A:b\nC:d x https://a.b": 'write "NAME: VALUE", not \'A:b',
        "-H A:b x prog": "--header is for a URL",
        "-e A=b x https://a.b": "--env is for a command",
        "-s project x prog": "--scope project is not supported",
        "x --url https://a.b prog": "give either a command or --url",
    }
    told = said(world, *(["mcp", "add", *line.split(" ")] for line in lines))
    for done, (line, words) in zip(told, lines.items(), strict=True):
        assert done.code == 2 and words in done.err, (line, done)
    assert not (world.config / "config.yaml").exists()


def test_a_server_is_added_beside_others_replaced_and_removed_and_comments_stay(world: World) -> None:
    path = world.config / "config.yaml"
    before = "# mine\nmcp_servers:\n  # the tracker\n  tickets: {command: t}  # old\nmode: ask  # careful\n"
    path.write_text(before, encoding="utf-8")
    added, again, forced, removed, gone = said(
        world,
        ["mcp", "add", "wiki", "https://w.x/mcp"],
        ["mcp", "add", "wiki", "https://other.x/mcp"],
        ["mcp", "add", "--force", "wiki", "wiki-server"],
        ["mcp", "remove", "wiki"],
        ["mcp", "remove", "wiki"],
    )
    assert added.code == forced.code == removed.code == 0
    assert (
        again.code == 2
        and "has a server named wiki already; --force replaces it; nothing was written" in again.err
    )
    assert gone.code == 2 and "there is no MCP server named 'wiki'; the servers are: tickets" in gone.err
    assert path.read_text(encoding="utf-8") == before


def test_a_secret_that_is_written_out_is_noted(world: World) -> None:
    literal, named, header = said(
        world,
        ["mcp", "add", "a", "-e", "GITHUB_TOKEN=abcdefgh1234", "prog"],
        ["mcp", "add", "b", "-e", "GITHUB_TOKEN=${GITHUB_TOKEN}", "prog"],
        ["mcp", "add", "c", "https://x.y", "-H", "Authorization: Bearer abc"],
    )
    assert literal.code == 0 and "GITHUB_TOKEN is in the file as you gave it" in literal.err
    assert named.err == "" and "--header 'Authorization: ${VARIABLE}'" in header.err
    for place, secret in (
        ("the URL", "https://x.y/mcp?api_key=abcdefgh1234"),
        ("the URL", "https://me:hush@x.y/mcp"),
        ("an argument", "prog --api-key abcdefgh1234"),
        ("an argument", "prog --token=abcdefgh1234"),
        ("", "prog --api-key ${KEY} --max-tokens 500 -y ./server.py"),
        ("", "https://x.y/mcp?api_key=${KEY}&page=3"),
        ("", "https://${HOST:-x.y}/mcp"),
    ):
        (told,) = said(world, ["mcp", "add", "--force", "d", *secret.split()])
        expected = f"agent: a secret in {place} is in the file as you gave it; with ${{VARIABLE}}" if place else ""
        assert told.code == 0 and told.err.startswith(expected) and bool(told.err) == bool(place), secret


def test_a_server_of_another_agents_file_is_removed_there(world: World) -> None:
    (world.home / ".claude.json").write_text(
        json.dumps({"mcpServers": {"theirs": {"command": "x"}}}), encoding="utf-8"
    )
    done, added, removed = said(
        world,
        ["mcp", "remove", "theirs"],
        ["mcp", "add", "theirs", "y"],
        ["mcp", "remove", "theirs"],
    )
    assert done.code == 2 and "the MCP server theirs is defined in ~/.claude.json; remove it there" in done.err
    assert added.code == 0 and removed.code == 0
    assert "theirs: it is now the one of ~/.claude.json" in removed.err


def test_the_list_names_every_server_and_starts_none(world: World, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    of_project(world, theirs={"command": "sh", "args": ["\x1b[2Jrun"]}, odd={"type": "ws", "url": "x"})
    config = {
        "mine": {"command": RUN[0], "args": [*RUN[1:], "--starts-file", str(starts)]},
        "off": {"url": "https://user:hush@a.b/mcp", "enabled": False},
        "unset": {"command": "x", "env": {"A": "${NOT_SET_ANYWHERE}"}},
    }
    (world.config / "config.yaml").write_text(json.dumps({"mcp_servers": config}, indent=1), encoding="utf-8")
    listed, as_json = said(world, ["mcp", "list"], ["mcp", "list", "--json"])
    rows = {line.split("  ")[0]: line for line in listed.out.splitlines()}
    assert "enabled" in rows["mine"] and "tools unknown" in rows["mine"] and "config.yaml:3" in rows["mine"]
    assert "disabled" in rows["off"] and "hush" not in listed.out
    assert "not trusted" in rows["theirs"] and ".mcp.json" in rows["theirs"] and "\x1b" not in listed.out
    assert "broken" in rows["unset"] and "the variable NOT_SET_ANYWHERE is not set" in listed.out
    assert "the MCP server odd is left out: the type 'ws' is not supported" in listed.out
    found = json.loads(as_json.out)
    assert {each["name"]: each["trusted"] for each in found["servers"]} == {
        "mine": True, "off": True, "unset": True, "theirs": False,
    }  # fmt: skip
    assert "odd" in found["notes"][0] and not starts.exists()


def test_the_list_is_printed_as_json_in_a_folder_whose_name_is_not_utf_8(world: World) -> None:
    folder = Path(os.fsdecode(os.fsencode(world.work) + b"/a\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes only names that are valid UTF-8")
    of_project(world, mine={"command": "true"})
    (world.work / ".mcp.json").rename(folder / ".mcp.json")
    (done,) = said(world, ["mcp", "list", "--json"], cwd=folder)
    assert [each["source"] for each in json.loads(done.out)["servers"]] == [f"{world.work}/a\ufffd/.mcp.json"]


def test_a_tested_server_is_shown_with_the_tools_that_are_left_out(world: World) -> None:
    one(world, "add", "demo", *RUN, "--fault", "bad-schema")
    tested = one(world, "test", "demo")
    assert tested.code == 0 and "  left out: tools: 'schema_text': " in tested.out
    assert "schema_text" not in tested.out.partition("left out")[0]


def test_a_server_is_tested_and_shown_with_what_it_offers(world: World) -> None:
    assert one(world, "add", "demo", "-e", "MY_TOKEN=abcdefgh1234", *RUN, "--fault", "invisible").code == 0
    before, tested, shown, listed = said(
        world, ["mcp", "get", "demo"], ["mcp", "test", "demo"], ["mcp", "get", "demo"], ["mcp", "list"]
    )
    assert "tools: not known yet" in before.out and "env: MY_TOKEN=[masked]" in before.out
    assert tested.code == 0 and "demo: ready after " in tested.out and "echo" in tested.out
    assert "prompts (1): /demo:greet" in tested.out and "resources (2): @demo:note://" in tested.out
    assert "protocol 2026-07-28" in tested.out
    assert "    add: " in shown.out and "abcdefgh1234" not in shown.out + tested.out
    assert "\u200b" not in shown.out and "tools unknown" not in listed.out


def test_a_changed_tool_is_shown_as_one_that_asks(world: World) -> None:
    revision = world.work / "server.sh"
    said(world, ["mcp", "add", "demo", "sh", str(revision)])
    command = f'exec "{RUN[0]}" "{RUN[1]}" --revision'
    revision.write_text(f"{command} 1\n", encoding="utf-8")
    first, before = said(world, ["mcp", "test", "demo"], ["mcp", "get", "demo"])
    revision.write_text(f"{command} 2\n", encoding="utf-8")
    second, after = said(world, ["mcp", "test", "demo"], ["mcp", "get", "demo"])
    assert first.code == second.code == 0
    assert "asks before its next call" not in before.out
    assert "echo: (asks before its next call: description" in after.out


def test_a_failure_names_the_cause_and_the_last_words(world: World) -> None:
    one(world, "add", "demo", *RUN, "--nonsense")
    failed, absent = said(world, ["mcp", "test", "demo"], ["mcp", "test", "nope"])
    assert failed.code == 1 and "demo: failed after " in failed.out and "exit code 2" in failed.out
    assert "last lines on stderr:" in failed.out and "--nonsense" in failed.out
    assert absent.code == 2 and "there is no MCP server named 'nope'; the servers are: demo" in absent.err


def test_a_server_of_the_project_needs_trust(world: World) -> None:
    of_project(world, theirs={"command": RUN[0], "args": RUN[1:]})
    refused, nobody, trusted, again, tested = said(
        world,
        ["mcp", "test", "theirs"],
        ["mcp", "trust", "theirs"],
        ["mcp", "trust", "theirs", "--yes"],
        ["mcp", "trust", "theirs"],
        ["mcp", "test", "theirs"],
    )
    assert refused.code == 2 and "`agent mcp trust theirs` shows it and asks" in refused.err
    assert nobody.code == 2 and "run this in a terminal, or add --yes" in nobody.err
    assert trusted.code == 0 and f"theirs: runs {RUN[0]}" in trusted.out
    assert "theirs is trusted already" in again.out
    assert tested.code == 0
    of_project(world, theirs={"command": RUN[0], "args": [*RUN[1:], "--tools", "3"]})
    assert one(world, "test", "theirs").code == 2


@pytest.mark.parametrize(
    ("key", "code", "words"), [("y\r", 0, "Trusted in its current form."), ("\r", 1, "Not trusted.")]
)
def test_trust_is_asked_for_on_a_terminal(world: World, key: str, code: int, words: str) -> None:
    of_project(world, theirs={"command": "run-it", "env": {"A": "${HOME}"}})
    with Person(world, "mcp", "trust", "theirs", is_awaited=False) as person:
        person.wait("Trust it?")
        assert "theirs: runs run-it" in person.text and "A=${HOME}" in person.text
        person.send(key)
        person.wait(words)
        assert person.finish() == code


def test_a_command_of_the_model_may_not_change_servers(world: World) -> None:
    of_project(world, theirs={"command": "x"})
    for line in (
        ["add", "a", "b"],
        ["remove", "a"],
        ["trust", "theirs", "--yes"],
        ["login", "a"],
        ["logout", "a"],
    ):
        done = world.run("mcp", *line, env={"AGENT": "agent-cli"})
        assert done.code == 2 and "a command that the agent runs may not" in done.err
    assert not (world.config / "config.yaml").exists()


def test_a_shell_completes_the_names_of_servers(world: World) -> None:
    said(world, ["mcp", "add", "tickets", "x"], ["mcp", "add", "wiki", "x"])
    env = {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": "agent mcp test t", "COMP_CWORD": "3"}
    assert world.run(env=env).out.split() == ["tickets"]


def redirect_of(shown: str, base: str) -> str:
    """The address that a browser is sent to once the user has agreed."""
    (address,) = re.findall(r"https?://\S+/authorize\S+", shown)
    query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    answer = {"code": "planted-code", "state": query["state"], "iss": f"{base}/as"}
    return f"{query['redirect_uri']}?{urlencode(answer)}"


@pytest.mark.parametrize("pasted", [False, True], ids=["browser", "pasted"])
def test_a_login_is_made_used_and_forgotten(world: World, pasted: bool) -> None:
    with oauth_server() as server:
        added, wanted = said(world, ["mcp", "add", "guarded", f"{server.base}/mcp"], ["mcp", "test", "guarded"])
        assert added.code == 0 and wanted.code == 1 and "agent mcp login guarded" in wanted.out
        process = world.start("mcp", "login", "guarded", "--no-browser", stdin=subprocess.PIPE)
        assert process.stdout is not None and process.stdin is not None
        shown = ""
        while "/authorize" not in shown:
            shown += process.stdout.readline()
        address = redirect_of(shown, server.base)
        if pasted:
            process.stdin.write(f"{address}\n")
            process.stdin.flush()
        else:
            assert urllib.request.urlopen(address, timeout=60).status == 200
        done = finish(process)
        assert done.code == 0 and "Logged in to guarded." in done.out, done
        assert "planted" not in done.out + done.err
        ready, out, again, gone = said(
            world,
            ["mcp", "test", "guarded"],
            ["mcp", "logout", "guarded"],
            ["mcp", "logout", "guarded"],
            ["mcp", "test", "guarded"],
        )
    assert ready.code == 0 and "whoami" in ready.out
    assert out.out == "Logged out of guarded.\n" and again.out == "You were not logged in to guarded.\n"
    assert gone.code == 1


def test_a_login_that_cannot_be_made_says_why(world: World) -> None:
    of_project(world, theirs={"url": "https://a.b/mcp"})
    with oauth_server() as server:
        server.knobs.methods = ()
        said(world, ["mcp", "add", "guarded", f"{server.base}/mcp"], ["mcp", "add", "mine", "prog"])
        unsafe, program, untrusted, absent = said(
            world,
            *(["mcp", "login", name] for name in ("guarded", "mine", "theirs", "nope")),
        )
    assert unsafe.code == 1 and "PKCE" in unsafe.err
    assert program.code == 1 and "needs no login" in program.err
    assert untrusted.code == 2 and "`agent mcp trust theirs`" in untrusted.err
    assert absent.code == 2 and "there is no MCP server named 'nope'" in absent.err
