"""A code editor, by hand: the real program behind pipes, and each line that it writes held against the official
schema of the Agent Client Protocol."""

import contextlib
import functools
import json
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from tests.e2e.world import World, until

ANSWERS = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/fork": "ForkSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
    "session/prompt": "PromptResponse",
}
REQUESTS = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateFormSessionElicitationRequest",
    "fs/read_text_file": "ReadTextFileRequest",
    "fs/write_text_file": "WriteTextFileRequest",
    "$/cancel_request": "CancelRequestNotification",
}
NEWER = {
    "notice": {"severity", "title", "description"},
    "compaction_update": {"compactionId", "status", "summary"},
}
"""Kinds of updates that the schema of the library does not have yet, and their fields."""
Answer = Callable[[dict[str, Any]], Any]


class Editor:
    """Use as a context manager: the program is started, and has to end by itself when its input ends."""

    def __init__(
        self,
        world: World,
        *arguments: str,
        offers: dict[str, Any] | None = None,
        env: dict[str, str | None] | None = None,
    ) -> None:
        """`offers` are the capabilities to begin with."""
        world.measured()
        self.world, self.offers = world, offers or {}
        self.process = world.start("acp", *arguments, stdin=subprocess.PIPE, env=env)
        self.received: list[dict[str, Any]] = []
        """All messages, in order."""
        self.sent: dict[Any, str] = {}
        """Method by id of our requests."""
        self.wrong: list[str] = []
        self.allow: str | Answer | None = "allow"
        """The option that is chosen for a permission, or what answers; None: nobody."""
        self.answers: dict[str, Answer] = {}
        """What answers other requests of the program."""
        self._ids = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
            assert self.process.wait(60) == 0, self.errors()
            self._reader.join(60)
            assert not self.wrong, self.wrong

    def initialize(self) -> Any:
        """Begin."""
        return self.request("initialize", protocolVersion=1, clientCapabilities=self.offers)

    def open(self, **more: Any) -> str:
        """Begin, and open a session; returns its id."""
        self.initialize()
        return self.new(**more)

    def new(self, **more: Any) -> str:
        """Open a session in the workspace; returns its id."""
        opened = self.request("session/new", **({"cwd": str(self.world.work), "mcpServers": []} | more))
        return str(opened["sessionId"])

    def raw(self, data: bytes) -> None:
        """Send bytes."""
        stream = self.process.stdin
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.buffer.write(data)  # type: ignore[attr-defined]
                stream.flush()

    def send(self, method: str, **params: Any) -> int:
        """Send a request; returns its id."""
        self._ids += 1
        self.sent[self._ids] = method
        self.raw(_line({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}))
        return self._ids

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.raw(_line({"jsonrpc": "2.0", "method": method, "params": params}))

    def reply(self, identifier: Any, result: Any) -> None:
        """Answer a request of the program."""
        self.raw(_line({"jsonrpc": "2.0", "id": identifier, "result": result}))

    def answer(self, identifier: int, timeout_s: float = 60.0) -> dict[str, Any]:
        """Wait for the answer to a request."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [each for each in self.received if each.get("id") == identifier and "method" not in each]
            return bool(found) or self.process.poll() is not None

        until(is_there, timeout_s)
        assert len(found) == 1, (found, self.errors() if self.process.poll() is not None else "")
        return found[0]

    def request(self, method: str, **params: Any) -> Any:
        """Send a request, and return its result."""
        answer = self.answer(self.send(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request that is refused, and return the error."""
        answer = self.answer(self.send(method, **params))
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error

    def begin(self, session: str, text: str | list[dict[str, Any]]) -> int:
        """Send a prompt; returns the id of the request."""
        blocks = [{"type": "text", "text": text}] if isinstance(text, str) else text
        return self.send("session/prompt", sessionId=session, prompt=blocks)

    def prompt(self, session: str, text: str | list[dict[str, Any]]) -> str:
        """Send a prompt, and return its stop reason."""
        answer = self.answer(self.begin(session, text))
        assert "result" in answer, answer
        return str(answer["result"]["stopReason"])

    def updates(self, kind: str = "", session: str = "") -> list[dict[str, Any]]:
        """Updates so far, of one kind or all."""
        return [
            each["params"]["update"]
            for each in list(self.received)
            if each.get("method") == "session/update"
            and kind in ("", each["params"]["update"]["sessionUpdate"])
            and session in ("", each["params"]["sessionId"])
        ]

    def text(self, kind: str = "agent_message_chunk", session: str = "") -> str:
        """What was said so far."""
        return "".join(each["content"]["text"] for each in self.updates(kind, session))

    def asked(self, method: str = "session/request_permission") -> list[dict[str, Any]]:
        """Requests of the program so far."""
        return [each for each in list(self.received) if each.get("method") == method and "id" in each]

    def call(self, call_id: str) -> dict[str, Any]:
        """A tool call as its updates leave it."""
        found: dict[str, Any] = {}
        for each in self.updates():
            if each.get("toolCallId") == call_id:
                found |= each
        return found

    def calls(self) -> list[dict[str, Any]]:
        """All tool calls, in order, as their updates leave them."""
        return [self.call(each["toolCallId"]) for each in self.updates("tool_call")]

    def close(self) -> None:
        """Close the program's input."""
        stream, self.process.stdin = self.process.stdin, None
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def errors(self) -> str:
        """What the program has written on standard error, once it has ended."""
        return self.process.stderr.read()  # type: ignore[union-attr]

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        for line in iter(stream.buffer.readline, b""):  # type: ignore[attr-defined]
            try:
                message = json.loads(line)
                self._check(message)
            except (ValueError, AssertionError) as error:
                self.wrong.append(f"{line[:300]!r}: {error}")
                continue
            self.received.append(message)
            if "id" in message and "method" in message:
                self._serve(message)

    def _serve(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message["params"]
        if method == "session/request_permission":
            if callable(self.allow):
                self.reply(message["id"], self.allow(params))
            elif self.allow is not None:
                offered = {option["kind"]: option["optionId"] for option in params["options"]}
                chosen = next((each for each in offered.values() if each == self.allow), offered["allow_once"])
                self.reply(message["id"], {"outcome": {"outcome": "selected", "optionId": chosen}})
        elif method in self.answers:
            self.reply(message["id"], self.answers[method](params))

    def _check(self, message: dict[str, Any]) -> None:
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            update = message["params"].get("update", {})
            if (fields := NEWER.get(update.get("sessionUpdate"))) is not None:
                assert set(update) <= {"sessionUpdate", *fields}, update
            else:
                _fits(REQUESTS[message["method"]], message["params"])
        elif "result" in message:
            _fits(ANSWERS[self.sent[message["id"]]], message["result"])
        else:
            assert set(message["error"]) <= {"code", "message", "data"}, message


def _fits(name: str, value: Any) -> None:
    """Hold a value against a model of the schema, which has to know all of its fields."""
    kind = _model(name)
    read = kind.validate_python(value)
    written = kind.dump_python(read, mode="json", by_alias=True, exclude_unset=True)
    assert written == value, f"not in the schema: {written} != {value}"


@functools.cache
def _model(name: str) -> Any:
    """What reads and writes one model; the library is loaded where it is needed, as loading it takes seconds."""
    import acp.schema
    import pydantic

    return pydantic.TypeAdapter(getattr(acp.schema, name))


def _line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def gone(world: World, timeout_s: float = 60.0) -> None:
    """Wait until nothing that was started is alive."""
    end = time.monotonic() + timeout_s
    until(lambda: not world.alive(), max(0.0, end - time.monotonic()))
