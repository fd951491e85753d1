"""What every request to a model must look like, whatever happened before it.

The scripted model checks each request of each test with this, so that no room can send what a provider
would refuse. The rules are the union of what the providers reject.
"""

import json
from collections.abc import Iterable

from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage


def check_request(request: ModelRequest) -> None:
    """Nothing when a provider would take the request.

    Raises:
        AssertionError: it would not; the text names the message and the rule.
    """
    messages = request.messages
    assert messages, "the request has no messages"
    assert isinstance(messages[0], UserMessage), f"the first message is {_shown(messages[0])}, not the user's"
    assert not isinstance(messages[-1], AssistantMessage), (
        f"the last message is {_shown(messages[-1])}: a provider has nothing to answer to"
    )
    _check_unique(request)
    open_calls: list[ToolCall] = []
    for place, message in enumerate(messages):
        where = f"message {place} {_shown(message)}"
        match message:
            case UserMessage():
                assert not open_calls, f"{where} comes before the results of {_ids(open_calls)}"
                assert message.text.strip() or message.context.strip() or message.images, f"{where} is empty"
            case AssistantMessage():
                assert not open_calls, f"{where} comes before the results of {_ids(open_calls)}"
                assert message.text.strip() or message.calls, f"{where} has neither text nor calls"
                for call in message.calls:
                    _check_call(call, where)
                open_calls = list(message.calls)
            case ToolResult():
                assert open_calls, f"{where} answers no open call: an orphan or a second result"
                expected = open_calls.pop(0)
                assert message.call_id == expected.id, f"{where} stands where the result of {expected.id} belongs"
    assert not open_calls, f"the calls {_ids(open_calls)} have no result"
    _check_text(messages)


def check_prefix(earlier: ModelRequest, later: ModelRequest) -> None:
    """Nothing when `later` only adds messages to `earlier`, so that a provider's cache still holds.

    Raises:
        AssertionError: something that was sent before has changed; the text says what.
    """
    assert later.system == earlier.system, "the system prompt changed"
    assert later.tools == earlier.tools, "the tools changed"
    assert len(later.messages) >= len(earlier.messages), "messages were taken away"
    for place, (old, new) in enumerate(zip(earlier.messages, later.messages, strict=False)):
        assert new == old, f"message {place} changed:\n  was {old}\n  is  {new}"


def _check_unique(request: ModelRequest) -> None:
    ids = [call.id for message in request.messages for call in _calls(message)]
    assert all(ids), "a call has an empty id"
    twice = sorted({call_id for call_id in ids if ids.count(call_id) > 1})
    assert not twice, f"call ids are used more than once: {twice}"
    names = [tool.name for tool in request.tools]
    assert len(set(names)) == len(names), f"tools have the same name: {names}"


def _check_call(call: ToolCall, where: str) -> None:
    assert call.name, f"{where}: call {call.id} has no name"
    try:
        arguments = json.loads(call.arguments)
    except ValueError as error:
        raise AssertionError(f"{where}: arguments of {call.id} are not JSON: {call.arguments!r}") from error
    assert isinstance(arguments, dict), f"{where}: arguments of {call.id} are no object: {call.arguments!r}"


def _check_text(messages: Iterable[Message]) -> None:
    for place, message in enumerate(messages):
        text = message.text + (message.context if isinstance(message, UserMessage) else "")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise AssertionError(f"message {place} cannot be sent as UTF-8: {error}") from error


def _calls(message: Message) -> tuple[ToolCall, ...]:
    return message.calls if isinstance(message, AssistantMessage) else ()


def _ids(calls: Iterable[ToolCall]) -> str:
    return ", ".join(call.id for call in calls)


def _shown(message: Message) -> str:
    detail = message.call_id if isinstance(message, ToolResult) else message.text[:40]
    return f"({type(message).__name__} {detail!r})"
