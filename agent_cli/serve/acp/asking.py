"""Put approvals and questions of the engine to the user of an editor. Unanswered approvals are refused."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from agent_cli.protocol.client import Client
from agent_cli.protocol.events import ApprovalItem, ApprovalRequested, QuestionAsked
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.operations import ApprovalAnswer, Decision, QuestionAnswer
from agent_cli.protocol.sanitize import clean

from ..engine_link import Question, asker, reply
from ..jsonrpc.messages import Disconnected, RpcError
from ..jsonrpc.peer import Peer
from .updates import Update, Updates
from .wire import ClientAbilities

_ALLOW, _ALWAYS, _REJECT, _NEVER = "allow", "allow_always", "reject", "reject_always"

_NONE = ("", "None of these")
"""Declines a question: not every client lets the user close it."""


class Asking:
    """The open questions of a session."""

    def __init__(
        self,
        peer: Peer,
        session_id: str,
        client: Client,
        abilities: ClientAbilities,
        updates: Updates,
        send: Callable[[Update], None],
    ) -> None:
        """`send` sends an update of the session."""
        self._peer, self._session_id = peer, session_id
        self._client, self._abilities = client, abilities
        self._updates, self._send = updates, send
        self._tasks: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """By request id: the sub-agent that asks, and the task that asks the user."""
        self._refused: set[str] = set()
        """Rules that the user has rejected for the rest of the session."""

    def can_ask(self, event: QuestionAsked) -> bool:
        """Return True if the client can answer a question in the middle of a turn."""
        return self._abilities.shows_forms or bool(event.options)

    def begin(self, event: ApprovalRequested | QuestionAsked) -> None:
        """Ask the user and submit the answer to the engine."""
        task = asyncio.create_task(self._ask(event))
        self._tasks[event.request_id] = (event.agent_name, task)
        task.add_done_callback(lambda _: self._tasks.pop(event.request_id, None))

    def withdraw(self, request_id: str) -> None:
        """Withdraw a question: the engine has its answer, or needs none."""
        if request_id in self._tasks:
            self._tasks[request_id][1].cancel()

    def withdraw_of(self, agent_name: str) -> None:
        """Withdraw the questions of a sub-agent, or those of the turn if the name is empty."""
        for name, task in list(self._tasks.values()):
            if name == agent_name:
                task.cancel()

    async def aclose(self) -> None:
        """Withdraw all questions."""
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def pick(self, title: str, choices: Sequence[tuple[str, str]]) -> str:
        """Have the user pick one of several labelled values; return the value, empty for none."""
        call_id = new_id("question")
        call = {"toolCallId": call_id, "title": clean(title), "kind": "other", "status": "pending"}
        self._send({"sessionUpdate": "tool_call", **call})
        options = [
            {"optionId": str(at), "name": clean(label), "kind": "allow_once" if value else "reject_once"}
            for at, (value, label) in enumerate(choices)
        ]
        picked = None
        try:
            picked = await self._permission(call, options)
        finally:
            status = "failed" if picked is None else "completed"
            self._send({"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status})
        return "" if picked is None else choices[int(picked)][0]

    async def _ask(self, event: ApprovalRequested | QuestionAsked) -> None:
        """Ask the user. Without a client there is no answer: the session's closer stops the turn."""
        with contextlib.suppress(Disconnected):
            if isinstance(event, QuestionAsked):
                await self._question(event)
                return
            decisions = [await self._decision(event, item) for item in event.items]
            await self._client.submit(ApprovalAnswer(event.request_id, tuple(decisions)))

    async def _decision(self, event: ApprovalRequested, item: ApprovalItem) -> Decision:
        if item.grant and item.grant in self._refused:
            return Decision(item.call_id, allow=False)
        for update in self._updates.ask(event, item):
            self._send(update)
        chosen = await self._permission(self._updates.approval(event, item), _options(item))
        if chosen == _NEVER:
            self._refused.add(item.grant)
        grant = item.grant if chosen == _ALWAYS else ""
        return Decision(item.call_id, allow=chosen in (_ALLOW, _ALWAYS), grant=grant)

    async def _permission(self, call: Update, options: Sequence[dict[str, str]]) -> str | None:
        """Return the option that the user has chosen; None for none, and for an invalid answer."""
        request = {"sessionId": self._session_id, "toolCall": call, "options": options}
        answer = await self._asked("session/request_permission", request)
        outcome = answer.get("outcome")
        if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":  # such as `cancelled`
            return None
        chosen = outcome.get("optionId")
        return chosen if chosen in [option["optionId"] for option in options] else None

    async def _question(self, event: QuestionAsked) -> None:
        message = clean("\n".join(filter(None, (asker(event), event.question))))
        if self._abilities.shows_forms:
            question = Question(message, event.options)
            form = {"mode": "form", "message": message, "requestedSchema": question.form}
            answer = await self._asked("elicitation/create", {"sessionId": self._session_id, **form})
            said = question.answer_in(answer.get("content")) if answer.get("action") == "accept" else None
        else:
            choices = [*((option, option) for option in event.options), _NONE]
            said = await self.pick(message, choices) or None
        await self._client.submit(QuestionAnswer(event.request_id, reply(said, event)))

    async def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the client's result; empty for an error, and for a result that is not an object."""
        with contextlib.suppress(RpcError):
            found = await self._peer.request(method, params)
            return found if isinstance(found, dict) else {}
        return {}


def _options(item: ApprovalItem) -> list[dict[str, str]]:
    options = [(_ALLOW, "Allow", "allow_once")]
    if item.grant:
        options.append((_ALWAYS, f"Allow {item.grant} for this session", "allow_always"))
    options.append((_REJECT, "Reject", "reject_once"))
    if item.grant:
        options.append((_NEVER, f"Reject {item.grant} for this session", "reject_always"))
    return [{"optionId": identifier, "name": clean(name), "kind": kind} for identifier, name, kind in options]
