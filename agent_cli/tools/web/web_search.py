"""`web_search`: results of a search engine. A table defines the engines and their requests; without a key the tool
is not offered.

Sources: the API references of Brave Search, Tavily, Exa and SearXNG.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import quote_plus, urlsplit

import msgspec

from agent_cli.protocol.actions import Action, Fetch
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.sanitize import clean

from ..kit.base import BasicTool, Preview, ToolContext, ToolError, ToolOutcome
from ..kit.output import counted

_MAX_RESULTS = 10
_MAX_EXCERPT = 600


class SearchRequest(msgspec.Struct, frozen=True):
    """One request to an engine."""

    url: str
    headers: dict[str, str]
    body: dict[str, Any] | None = None
    """JSON to POST; None for a GET."""


class Engine(msgspec.Struct, frozen=True):
    """The request format of an engine, and the location of its results."""

    key_env: str
    """Variable with its key; empty if it needs none."""
    base_url: str
    request: Callable[[str, str, str, int], SearchRequest]
    """Arguments: base URL, key, query and number of results."""
    results: tuple[str, ...]
    """Path to the list of results in the JSON answer."""
    excerpt: tuple[str, ...]
    """Fields that may contain a result's text, the best first."""


def _brave(base: str, key: str, words: str, count: int) -> SearchRequest:
    url = f"{base}/res/v1/web/search?q={quote_plus(words)}&count={count}"
    return SearchRequest(url, {"x-subscription-token": key, "accept": "application/json"})


def _tavily(base: str, key: str, words: str, count: int) -> SearchRequest:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    return SearchRequest(f"{base}/search", headers, {"query": words, "max_results": count})


def _exa(base: str, key: str, words: str, count: int) -> SearchRequest:
    body = {"query": words, "numResults": count, "contents": {"text": {"maxCharacters": _MAX_EXCERPT}}}
    return SearchRequest(f"{base}/search", {"x-api-key": key, "content-type": "application/json"}, body)


def _searxng(base: str, key: str, words: str, count: int) -> SearchRequest:
    return SearchRequest(f"{base}/search?q={quote_plus(words)}&format=json", {"accept": "application/json"})


ENGINES: dict[str, Engine] = {
    "brave": Engine("BRAVE_API_KEY", "https://api.search.brave.com", _brave, ("web", "results"), ("description",)),
    "tavily": Engine("TAVILY_API_KEY", "https://api.tavily.com", _tavily, ("results",), ("content",)),
    "exa": Engine("EXA_API_KEY", "https://api.exa.ai", _exa, ("results",), ("text", "summary")),
    "searxng": Engine("", "", _searxng, ("results",), ("content",)),
}


class WebSearchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `web_search`."""

    query: str
    count: Annotated[int, msgspec.Meta(ge=1, le=_MAX_RESULTS)] = 5


class WebSearch(BasicTool):
    """Queries one engine. `private_hosts` may be on this machine or in a private network."""

    name = "web_search"
    label = "Search the web for"
    Params = WebSearchParams
    editable = "query"

    def __init__(self, engine: Engine, base_url: str, key: str, private_hosts: tuple[str, ...] = ()) -> None:
        self._engine = engine
        self._base_url = base_url.rstrip("/")
        self._key = key
        self._private_hosts = private_hosts

    def title(self, params: WebSearchParams) -> str:
        return params.query

    def actions(self, params: WebSearchParams, context: ToolContext) -> tuple[Action, ...]:
        return (Fetch(self._base_url, urlsplit(self._base_url).hostname or ""),)

    async def preview(self, params: WebSearchParams, context: ToolContext) -> Preview:
        return Preview(f"Ask {self._base_url} for: {params.query}")

    async def run(self, params: WebSearchParams, context: ToolContext) -> ToolOutcome:
        from agent_cli.net.addresses import AddressRefused
        from agent_cli.net.fetch import FetchError, fetch

        if not params.query.strip():
            raise ToolError("The query is empty.")
        wanted = self._engine.request(self._base_url, self._key, params.query, params.count)
        content = None if wanted.body is None else msgspec.json.encode(wanted.body)
        try:
            found = await fetch(wanted.url, headers=wanted.headers, content=content, allowed=self._private_hosts)
        except (AddressRefused, FetchError) as error:
            raise ToolError(clean(str(error))) from error
        if found.elsewhere:
            raise ToolError(
                f"{self._base_url} redirects to {clean(found.elsewhere[:200])}; its key is not sent there."
            )
        if found.status != 200:
            raise ToolError(f"{self._base_url} answered with status {found.status}: {self._said(found.data)}")
        results = _results(found.data, self._engine)[: params.count]
        return ToolOutcome(
            text=clean("\n\n".join(results)) or "No results.",
            display=f"{counted(len(results), 'result')} from {found.url}",
            untrusted="a web search",
        )

    def _said(self, data: bytes) -> str:
        text = data[:500].decode("utf-8", "replace")
        return clean(text.replace(self._key, "…") if self._key else text)


def search_tool(
    name: str | None, base_url: str | None, env: Mapping[str, str], private_hosts: tuple[str, ...]
) -> WebSearch | None:
    """Return the tool for the named engine, or for the first whose key is in `env`; None if there is none.

    Raises:
        ToolError: the named engine lacks its key or address.
    """
    for each, engine in ENGINES.items():
        key = env.get(engine.key_env, "") if engine.key_env else ""
        usable = bool(key or not engine.key_env) and bool(base_url or engine.base_url)
        if each == name and not usable:
            what = f"the variable {engine.key_env}" if engine.key_env else "tools.web.search_url"
            raise ToolError(f"Web search with {each} needs {what}.")
        if usable and (each == name or (name is None and engine.key_env)):
            hosts = (*private_hosts, urlsplit(base_url).netloc) if base_url else private_hosts
            return WebSearch(engine, base_url or engine.base_url, key, hosts)
    return None


def _results(data: bytes, engine: Engine) -> list[str]:
    """Return title, address and excerpt of each result.

    Raises:
        ToolError: the answer does not have the engine's format.
    """
    try:
        found: Any = decode_json(data)
        for step in engine.results:
            found = found.get(step, {} if step != engine.results[-1] else [])
        return [_result(each, engine) for each in found if isinstance(each, dict) and each.get("url")]
    except (msgspec.DecodeError, AttributeError, TypeError) as error:
        raise ToolError("The search engine's answer cannot be read.") from error


def _result(result: dict[str, Any], engine: Engine) -> str:
    excerpt = next((str(result[field]) for field in engine.excerpt if result.get(field)), "")
    plain = re.sub(r"\s+", " ", re.sub(r"</?\w+>", "", excerpt)).strip()[:_MAX_EXCERPT]
    return f"{result.get('title') or '(no title)'}\n{result['url']}\n{plain}".rstrip()
