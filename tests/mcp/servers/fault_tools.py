"""The tools of the fault server, and the call that a tool is given."""

import base64
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from fault_wire import META, Channel, Json, die, log

if TYPE_CHECKING:
    from fault_server import FaultServer

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
    )
).decode()


class ProtocolError(Exception):
    """What becomes a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message} | ({} if data is None else {"data": data})


class InputRequired(Exception):
    """The modern way to ask the client: end the call with these requests; the client calls again."""

    def __init__(self, requests: Json) -> None:
        super().__init__("input required")
        self.requests = requests


class Call:
    """One request being served."""

    def __init__(self, server: "FaultServer", channel: Channel, message: Json) -> None:
        self.server, self.channel, self.message = server, channel, message
        self.cancelled = threading.Event()

    @property
    def params(self) -> Json:
        return self.message.get("params") or {}

    @property
    def modern(self) -> bool:
        return f"{META}protocolVersion" in self.params.get("_meta", {})

    @property
    def over(self) -> bool:
        """Whether the client has given up on this request."""
        return self.cancelled.is_set() or self.channel.closed()

    def wait(self, seconds: float) -> bool:
        """Wait, and return whether the request is still wanted at the end."""
        end = time.monotonic() + seconds
        while not self.over and (left := end - time.monotonic()) > 0:
            self.cancelled.wait(min(left, 0.02))
        return not self.over

    def wait_for_end(self) -> None:
        """Wait until the client has given up on this request."""
        while self.wait(60):
            pass

    def progress(self, done: int, total: int) -> None:
        """Report progress, if the request has a token for it."""
        token = self.params.get("_meta", {}).get("progressToken")
        if token is not None:
            params = {"progressToken": token, "progress": done, "total": total, "message": f"step {done}"}
            self.channel.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def ask(self, key: str, method: str, params: Json) -> Json:
        """Ask the client, in the way of the era, and return its result."""
        if not self.modern:
            return self.server.ask(self, method, params)
        answers = self.params.get("inputResponses") or {}
        if key not in answers:
            raise InputRequired({key: {"method": method, "params": params}})
        answer: Json = answers[key]
        return answer


def text_result(text: str, **more: Any) -> Json:
    """Build a tool result of one text block."""
    return {"content": [{"type": "text", "text": text}], "isError": False, **more}


def echo(call: Call, arguments: Json) -> Json:
    return text_result(str(arguments.get("text", "")))


def odata(call: Call, arguments: Json) -> Json:
    return text_result(json.dumps(arguments, sort_keys=True))


def add(call: Call, arguments: Json) -> Json:
    total = arguments["a"] + arguments["b"]
    return text_result(str(total), structuredContent={"sum": total})


def slow(call: Call, arguments: Json) -> Json:
    finished = call.wait(float(arguments.get("seconds", 1)))
    log("slow: finished" if finished else "slow: cancelled")
    return text_result("finished")


def read_only(call: Call, arguments: Json) -> Json:
    return text_result(f"read by process {os.getpid()}")


def write_file(call: Call, arguments: Json) -> Json:
    Path(arguments["path"]).write_text(arguments["text"], encoding="utf-8")
    return text_result(f"wrote {arguments['path']}")


def environ(call: Call, arguments: Json) -> Json:
    return text_result(json.dumps(dict(os.environ)))


def big(call: Call, arguments: Json) -> Json:
    return text_result("x" * int(arguments["size"]))


def image(call: Call, arguments: Json) -> Json:
    return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}], "isError": False}


def progress(call: Call, arguments: Json) -> Json:
    steps = int(arguments.get("steps", 3))
    for step in range(1, steps + 1):
        call.progress(step, steps)
        if not call.wait(float(arguments.get("pause", 0))):
            break
    return text_result(f"{steps} steps")


def elicit(call: Call, arguments: Json) -> Json:
    params: Json = {"message": "What is your name?", "requestedSchema": NAME_FORM}
    if arguments.get("mode") == "url":
        params = {"mode": "url", "message": "Sign in", "url": "https://example.com/sign-in", "elicitationId": "e1"}
    return text_result(json.dumps(call.ask("elicit", "elicitation/create", params)))


def sample(call: Call, arguments: Json) -> Json:
    return text_result(json.dumps(call.ask("sample", "sampling/createMessage", SAMPLING)))


def roots(call: Call, arguments: Json) -> Json:
    return text_result(json.dumps(call.ask("roots", "roots/list", {})))


def crash(call: Call, arguments: Json) -> Json:
    die("crash: the tool was asked to end the process")
    raise AssertionError


def fail(call: Call, arguments: Json) -> Json:
    return text_result("the tool failed", isError=True)


def changes(call: Call, arguments: Json) -> Json:
    call.server.revision += 1
    call.server.announce("tools")
    return text_result(f"revision {call.server.revision}")


NAME_FORM: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SAMPLING: Json = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello"}}],
    "maxTokens": 16,
}


class Tool(NamedTuple):
    """A tool and what is listed of it."""

    run: Callable[[Call, Json], Json]
    description: str
    properties: Mapping[str, str] = MappingProxyType({})
    """Argument name to JSON type; all are required, but for those in `optional`."""
    optional: frozenset[str] = frozenset()
    annotations: Mapping[str, Any] = MappingProxyType({})
    output: Json | None = None

    def listed(self, name: str, description: str) -> Json:
        """Build the definition as `tools/list` gives it."""
        schema: Json = {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in self.properties.items()},
            "required": sorted(set(self.properties) - self.optional),
        }
        listed: Json = {"name": name, "description": description, "inputSchema": schema}
        if self.annotations:
            listed["annotations"] = self.annotations
        if self.output is not None:
            listed["outputSchema"] = self.output
        return listed


READS: Json = {"readOnlyHint": True}
SUM: Json = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
TOOLS = {
    "echo": Tool(echo, "Return the text", {"text": "string"}, annotations=READS),
    "add": Tool(add, "Add two numbers", {"a": "number", "b": "number"}, annotations=READS, output=SUM),
    "slow": Tool(slow, "Wait and finish", {"seconds": "number"}),
    "read_only": Tool(read_only, "Name the process", annotations=READS),
    "write_file": Tool(write_file, "Write a file", {"path": "string", "text": "string"}),
    "environ": Tool(environ, "Return the environment of the server"),
    "big": Tool(big, "Return text of a size", {"size": "integer"}),
    "image": Tool(image, "Return a picture"),
    "progress": Tool(
        progress, "Report progress", {"steps": "integer", "pause": "number"}, frozenset({"steps", "pause"})
    ),
    "elicit": Tool(elicit, "Ask the user", {"mode": "string"}, frozenset({"mode"})),
    "sample": Tool(sample, "Ask the model of the client"),
    "roots": Tool(roots, "Ask for the roots"),
    "crash": Tool(crash, "End the process of the server"),
    "fail": Tool(fail, "Return an error"),
    "changes": Tool(changes, "Change the description of echo and announce it"),
}
ODD_PARAMETERS = {
    "odata": Tool(
        odata, "Query", {"$filter": "string", "filter": "string", "filter[名]": "string", "$" + "n" * 80: "string"}
    )
}
"""Parameters that Anthropic refuses, as those of OData and JSON:API."""
ODD_NAMES = ("a/b", "a.b", "a b", "a_b", "werkzeug/süß", "日本語", "n" * 200, "", "echo", "../../etc/passwd")
BAD_SCHEMAS: dict[str, Any] = {
    "schema_type_number": {"type": 12, "properties": "none"},
    "schema_remote_ref": {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/schema.json"}}},
    "schema_text": "not a schema",
    "schema_missing": None,
}
