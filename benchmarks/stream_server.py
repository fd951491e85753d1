"""A server that streams one long answer in three wire formats, a token a chunk, for the measurements.

    python -m benchmarks.stream_server TOKENS

prints its port. The text of the first chunk is the moment at which it was sent, on the monotonic clock.
"""

import json
import re
import socket
import sys
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_USAGE = {"prompt_tokens": 10, "completion_tokens": 10}
_ANTHROPIC = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "bench"}


def chat(text: str) -> bytes:
    """One token in Chat Completions."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return _data({"id": "c", "object": "chat.completion.chunk", "model": "bench", "choices": [choice]})


def anthropic(text: str) -> bytes:
    """One token in Anthropic Messages."""
    delta = {"type": "text_delta", "text": text}
    return _data({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")


def responses(text: str) -> bytes:
    """One token in OpenAI Responses."""
    event = "response.output_text.delta"
    return _data({"type": event, "item_id": "m", "output_index": 0, "content_index": 0, "delta": text}, event)


def ends(path: str) -> tuple[bytes, bytes]:
    """What comes before and behind the tokens."""
    if path.endswith("/messages"):
        usage = {"input_tokens": 10, "output_tokens": 1}
        start = _data({"type": "message_start", "message": _ANTHROPIC | {"usage": usage}}, "message_start")
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        delta: dict[str, object] = {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 10},
        }
        stop = _data({"type": "content_block_stop", "index": 0}) + _data(delta) + _data({"type": "message_stop"})
        return start + _data(block), stop
    if path.endswith("/responses"):
        usage = {"input_tokens": 10, "output_tokens": 10}
        response = {"id": "r", "object": "response", "status": "completed", "output": [], "usage": usage}
        return b"", _data({"type": "response.completed", "response": response}, "response.completed")
    finish: dict[str, object] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return b"", _data(finish) + _data({"choices": [], "usage": _USAGE}) + b"data: [DONE]\n\n"


def serve(tokens: int) -> None:
    """Serve until the process is killed."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            path = _request(connection)
            if not path:
                connection.sendall(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                continue
            token = {"/messages": anthropic, "/responses": responses}.get(path[path.rfind("/") :], chat)
            before, behind = ends(path)
            connection.sendall(HEAD + before)
            time.sleep(0.05)  # the client waits for the first token by now
            connection.sendall(token(repr(time.monotonic())))
            time.sleep(0.01)
            for start in range(1, tokens, 100):
                connection.sendall(b"".join(token(f"t{n} ") for n in range(start, min(tokens, start + 100))))
            connection.sendall(behind)


def _data(event: dict[str, object], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


def _request(connection: socket.socket) -> str:
    """Read one request; returns its path, empty for one that only asks about the model."""
    data = connection.recv(65536)
    if data.startswith(b"GET "):
        return ""
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))  # type: ignore[union-attr]
    while len(body) < length:
        body += connection.recv(65536)
    return head.split(b" ", 2)[1].decode().partition("?")[0]


if __name__ == "__main__":
    serve(int(sys.argv[1]))
