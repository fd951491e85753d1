"""What an error says holds no key, no configured header and no password of an address."""

import base64

import pytest

from agent_cli.model.transport.error_redaction import ErrorRedactor
from agent_cli.model.types.base import Adjusted, ModelError
from agent_cli.model.types.provider_table import Route
from tests.model.reaching import ASK, clear, client, failure
from tests.model.server import Reply, Server

KEY = "sk-SECRETKEY123456"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)


async def test_a_refusal_that_repeats_the_key() -> None:
    refusal = Reply(
        status=401,
        headers={"x-request-id": f"req-{KEY}"},
        body={"error": {"message": f"Incorrect API key provided: {KEY}. Team {'T' * 8}, token TOKEN77."}},
    )
    headers = {"x-team": "T" * 8, "Authorization": "Bearer TOKEN77", "x-short": "error"}
    async with Server(refusal) as server:
        error = await failure(server.url, api_key=KEY, headers=headers)
    assert error.kind == "auth"
    assert error.message == str(error) == "Incorrect API key provided: ***. Team ***, token ***."
    assert error.request_id == "req-***"


async def test_a_key_inside_a_stream() -> None:
    raw = f'data: {{"error": {{"message": "no access for {KEY}", "code": 403}}}}\n\n'
    async with Server(Reply(raw=raw)) as server:
        error = await failure(server.url, api_key=KEY)
    assert error.message == "no access for ***"


async def test_a_refused_part_is_told_without_the_key() -> None:
    message = f"{KEY}: stream_options is not supported"
    refusal = Reply(status=400, body={"error": {"message": message}})
    async with Server(refusal, Reply(text="x")) as server, client(server.url, api_key=KEY) as model:
        told = [event async for event in model.stream(ASK) if isinstance(event, Adjusted)]
    assert len(told) == 1 and told[0].error is not None
    assert KEY not in told[0].error.message and "***: stream_options" in told[0].error.message


@pytest.mark.parametrize("url", ["ftp://bob:HUNTER2@127.0.0.1/v1", "http://bob:HUNTER2@127.0.0.1:notaport/v1"])
async def test_an_address_that_cannot_be_used(url: str) -> None:
    error = await failure(url)
    assert error.message and "HUNTER2" not in error.message


@pytest.mark.parametrize(
    "said",
    [
        "http://bob:p%40ssword@host/v1",
        "bob:p%40ssword",
        "login p@ssword",
        "Basic " + base64.b64encode(b"bob:p@ssword").decode(),
    ],
)
def test_a_password_in_every_spelling(said: str) -> None:
    masks = ErrorRedactor(Route("p/m", "p", "m", "chat_completions", "http://bob:p%40ssword@host/v1"))
    with pytest.raises(ModelError) as caught, masks.applied():
        raise ModelError("server", said)
    assert "***" in caught.value.message
    for secret in ("ssword", base64.b64encode(b"bob:p@ssword").decode()):
        assert secret not in caught.value.message


def test_a_short_login_is_masked_in_addresses_only() -> None:
    masks = ErrorRedactor(Route("p/m", "p", "m", "chat_completions", "http://a:b@host/v1", api_key="none"))
    with pytest.raises(ModelError) as caught, masks.applied():
        raise ModelError("server", "http://a:b@host/v1 has none of a:b \ud83d")
    assert caught.value.message == "http://***@host/v1 has none of a:b \ufffd"
