"""Answers that are not quite what the protocol says: what can be read is read, and nobody waits for the rest."""

import asyncio
import json
import re
import sys
from typing import Any

import pytest

from agent_cli.mcp.types.client import ServerError
from agent_cli.mcp.types.definition import ServerDefinition

from .test_http import Handler, serving, to
from .world import PATIENCE_S, Answers, Lab

SERVER = r"""
import json, os, sys

answers = json.loads(sys.argv[1])
out = sys.stdout.buffer
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, number = message["method"], message["id"]
    result = {"server/discover": None, "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
              "initialize": {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "raw", "version": "1"}}}.get(method)
    if method in answers:
        text = answers[method].replace("ID", str(number)).replace("DEEP", "[" * 5000 + "]" * 5000)
    elif result is None:
        text = json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "unknown"}})
    else:
        text = json.dumps({"jsonrpc": "2.0", "id": number, "result": result})
    if text == "CLOSE":
        os.close(1)
        continue
    out.write(text.encode("latin-1") + b"\n")
    out.flush()
"""


def raw(**answers: str) -> ServerDefinition:
    """A server that writes its answers exactly so; `tools_call` is for `tools/call`."""
    written = json.dumps({method.replace("_", "/"): text for method, text in answers.items()})
    return ServerDefinition(name="demo", transport="stdio", command=(sys.executable, "-c", SERVER, written))


def answer(text: str, more: str = "") -> str:
    return f'{{"jsonrpc":"2.0","id":ID,"result":{{"content":[{{"type":"text","text":"{text}"}}]{more}}}}}'


LISTED = '{"jsonrpc":"2.0","id":ID,"result":{"%s":[]}}'


def whole(result: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 0, "result": result}).replace('"id": 0', '"id":ID')


def announcing(**changes: Any) -> str:
    """An answer to `initialize`."""
    usual = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
    result = {**usual, "serverInfo": {"name": "raw", "version": "1"}, **changes}
    return whole(result)


def refusal(message: str) -> str:
    return f'{{"jsonrpc":"2.0","id":ID,"error":{{"code":-32000,"message":"{message}"}}}}'


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (answer(r"half \ud83d end"), "half \ufffd end"),
        (answer("caf\xe9"), "caf\ufffd"),
        (answer("ok", ',"structuredContent":{"share":NaN}'), 'ok\n{"share":null}'),
        (f"[{answer('in a batch')}]", "in a batch"),
        ("\xef\xbb\xbf" + answer("marked"), "marked"),
        (answer("kept", ',"structuredContent":[1,2]'), 'kept\n{"result":[1,2]}'),
        (answer("kept", ',"_meta":"none"'), "kept"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"content":"kept"}}', "kept"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"structuredContent":{"sum":3}}}', '{"sum":3}'),
        (answer("kept").replace('"}]', '","annotations":{"priority":7}}]'), "kept"),
    ],
)
async def test_an_answer_is_read_as_far_as_it_can_be(lab: Lab, written: str, read: str) -> None:
    client = await lab.connect(raw(tools_call=written))
    assert (await asyncio.wait_for(client.call("t", {}), PATIENCE_S)).text == read


async def test_a_tool_whose_schema_lacks_only_its_type_is_offered_and_called(lab: Lab) -> None:
    """As servers of n8n and those with alternatives at the top write them."""
    either = [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object"}]
    tools = [
        {"name": "bare", "inputSchema": {}},
        {"name": "either", "inputSchema": {"anyOf": either}},
        {"name": "plain", "inputSchema": {"properties": {"a": {"type": "string"}}}},
        {"name": "returns", "inputSchema": {"type": "object"}, "outputSchema": {"anyOf": either}},
        {"name": "strict", "inputSchema": {}, "outputSchema": {"type": "object", "required": ["a"]}},
        {"name": "text", "inputSchema": {"type": "string"}},
    ]
    answers = Answers()
    server = raw(tools_list=whole({"tools": tools}), tools_call=answer("called"))
    client = await lab.connect(server, answers)
    assert [tool.name for tool in client.offer.tools] == ["bare", "either", "plain", "returns", "strict"]
    assert [line for line in answers.lines if "(left out)" in line and "'text'" in line]
    for tool in client.offer.tools:
        assert (await asyncio.wait_for(client.call(tool.name, {}), PATIENCE_S)).text == "called"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"jsonrpc":"2.0","id":ID,"result":"hello"}', "sent an answer that is not a JSON-RPC message."),
        ('{"jsonrpc":"2.0","id":ID}', "sent an answer that is not a JSON-RPC message."),
        ('{"id":ID,"result":{"content":[]}}', "sent an answer that is not a JSON-RPC message."),
        ('{"jsonrpc":"2.0","id":ID,"error":{"code":"E1","message":"full"}}', "refused: full."),
        ('{"jsonrpc":"2.0","id":ID,"error":"full"}', "refused: full."),
        ('{"jsonrpc":"2.0","id":ID,"result":{"a":DEEP}}', "sent an answer that "),
        ('{"result":{"a":DEEP},"jsonrpc":"2.0","id":ID}', "sent an answer that "),
    ],
)
async def test_nobody_waits_for_an_answer_that_came_and_is_none(lab: Lab, written: str, said: str) -> None:
    answers = Answers()
    client = await lab.connect(raw(tools_call=written), answers)
    for _ in range(2):  # the connection is still there
        with pytest.raises(ServerError) as caught:
            await client.call("t", {})
        assert str(caught.value).startswith(f"The MCP server demo {said}")
    assert not client.closed.done() and any("(not a message) " in line for line in answers.lines)


@pytest.mark.parametrize("method", ["prompts_list", "resources_list"])
async def test_a_list_that_was_announced_and_is_refused_costs_no_tool(lab: Lab, method: str) -> None:
    answers = Answers()
    hello = announcing(protocolVersion="2025-06-18", capabilities={"tools": {}, "prompts": {}, "resources": {}})
    lists = {
        "prompts_list": LISTED % "prompts",
        "resources_list": LISTED % "resources",
        method: refusal("no such"),
    }
    client = await lab.connect(raw(initialize=hello, **lists), answers)
    assert [tool.name for tool in client.offer.tools] == ["t"]
    assert any(f"(left out) {method.partition('_')[0]}: " in line for line in answers.lines)


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        ({"protocolVersion": "2023-01-01"}, "speaks revision 2023-01-01 of the protocol, which is unknown."),
        ({"serverInfo": None}, "sent what is not valid: serverInfo: "),
    ],
)
async def test_a_greeting_that_is_not_valid_is_the_cause_that_is_named(
    lab: Lab, hello: dict[str, Any], said: str
) -> None:
    with pytest.raises(ServerError, match=re.escape(f"The MCP server demo {said}")):
        await lab.connect(raw(initialize=announcing(**hello)))


async def test_a_refusal_that_speaks_of_another_connection_does_not_end_ours(lab: Lab) -> None:
    client = await lab.connect(raw(tools_call=refusal("Connection closed by the database")))
    for _ in range(2):
        with pytest.raises(ServerError, match="demo refused: Connection closed by the database"):
            await client.call("t", {})
    assert not client.closed.done()


async def test_a_server_that_closes_its_output_and_lives_on_is_given_up(lab: Lab) -> None:
    client = await lab.connect(raw(tools_call="CLOSE"))
    with pytest.raises(ServerError, match="demo closed its output and was stopped"):
        await asyncio.wait_for(client.call("t", {}), PATIENCE_S)
    assert client.closed.done()


async def test_half_a_character_in_a_list_costs_no_tool(lab: Lab) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}, "description": "\ud83d"} for name in ("a", "b")]
    listed = json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"tools": tools}}).replace('"id": 0', '"id":ID')
    client = await lab.connect(raw(tools_list=listed))
    assert [(tool.name, tool.description) for tool in client.offer.tools] == [("a", "\ufffd"), ("b", "\ufffd")]


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("text", [rb"half \ud83d end", b"half \xe9 end"])
async def test_the_same_holds_over_http(lab: Lab, kind: str, text: bytes) -> None:
    def serve(handler: Handler, message: dict[str, Any]) -> None:
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "TEXT"}]},
        }
        if "id" not in message:
            return handler.reply(202)
        if message["method"] not in results:
            return handler.reply(400)
        whole = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
        body = json.dumps(whole).encode().replace(b"TEXT", text)
        body = b"\xef\xbb\xbf" + (b"data: %s\r\n\r\n" % body if kind.startswith("text") else body)
        handler.reply(200, body, content_type=kind)

    with serving(serve) as server:
        client = await lab.connect(to(server.url))
        assert (await asyncio.wait_for(client.call("t", {}), PATIENCE_S)).text == "half \ufffd end"
        await client.aclose()


@pytest.mark.parametrize("code", [-32601, -32600, -32602, -32022])
@pytest.mark.parametrize("spoken", ["", "2025-06-18"])
async def test_a_server_that_has_given_up_the_handshake_is_reached_without(
    lab: Lab, code: int, spoken: str
) -> None:
    fixed = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    discovered = {**fixed, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    tools = {**fixed, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
    server = raw(
        initialize=refusal("there is no handshake").replace("-32000", str(code)),
        server_discover=whole(discovered),
        tools_list=whole(tools),
        tools_call=whole({"resultType": "complete", "content": [{"type": "text", "text": "fine"}]}),
    )
    client = await lab.connect(server, spoken=spoken)
    assert client.offer.protocol == "2026-07-28"
    assert (await asyncio.wait_for(client.call("t", {}), PATIENCE_S)).text == "fine"


async def test_a_server_that_refuses_both_is_quoted_about_the_handshake(lab: Lab) -> None:
    server = raw(initialize=refusal("no handshake").replace("-32000", "-32601"))
    for spoken in ("", "2025-06-18"):
        with pytest.raises(ServerError, match="The MCP server demo refused: no handshake"):
            await lab.connect(server, spoken=spoken)
