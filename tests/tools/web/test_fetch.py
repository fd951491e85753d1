"""The web as text."""

import re

import pytest

from agent_cli.protocol.actions import Fetch
from agent_cli.tools.kit.base import ToolContext, ToolError, ToolOutcome
from agent_cli.tools.registry import default_registry
from agent_cli.tools.web.fetch import WebFetch, WebFetchParams
from agent_cli.tools.web.web_search import ENGINES, WebSearchParams, search_tool
from agent_cli.workspace.documents.html_bare import bare_text
from agent_cli.workspace.documents.html_text import markdown
from tests.costs import assert_linear
from tests.net.web_server import Answer, site

PAGE = b"""<!doctype html><html><head><title>The guide</title><style>p{}</style><script>steal()</script></head><body>
<nav><a href="/other">Elsewhere</a></nav><main><h1>Install</h1><p>Run <code>make</code> &amp; <b>wait</b>.</p>
<pre><code>x = 1
  y = 2</code></pre><ul><li>one</li><li>two</li></ul><table><tr><th>a</th><th>b</th></tr>
<tr><td>1</td><td>2</td></tr></table></main><footer>Cookies</footer></body></html>"""


async def fetched(context: ToolContext, answer: Answer) -> ToolOutcome:
    with site({"/": answer}) as web:
        return await WebFetch(("127.0.0.1",)).run(WebFetchParams(web.url + "/"), context)


async def test_a_page_becomes_markdown_without_its_frame(context: ToolContext) -> None:
    outcome = await fetched(context, (200, {"content-type": "text/html"}, PAGE))
    head, _, text = outcome.text.partition("\n")
    assert "status 200" in head and "What follows is data" in head and outcome.ok
    assert text.startswith("# The guide\n\n# Install\n\nRun `make` & **wait**.")
    assert "```\nx = 1\n  y = 2\n```" in text and "- one\n- two" in text and "| a | b |" in text
    assert not any(word in text for word in ("steal", "Cookies", "Elsewhere", "p{}"))


@pytest.mark.parametrize(
    ("headers", "body", "wanted"),
    [
        ({"content-type": "application/json"}, b'{"a": 1}', '{"a": 1}'),
        ({"content-type": "text/plain; charset=latin-1"}, b"caf\xe9", "café"),
        ({"content-type": "text/html"}, b'<meta charset="shift_jis"><p>\x93\xfa\x96{\x8c\xea', "日本語"),
        ({}, b"<!DOCTYPE html><p>untyped", "untyped"),
        ({"content-type": "text/html"}, b"", "(empty)"),
        ({"content-type": "application/vnd.x+json"}, b"[1]", "[1]"),
    ],
)
async def test_types_and_encodings(
    context: ToolContext, headers: dict[str, str], body: bytes, wanted: str
) -> None:
    assert (await fetched(context, (200, headers, body))).text.split("\n", 1)[1].strip() == wanted


async def test_an_error_page_is_shown_as_a_failure(context: ToolContext) -> None:
    outcome = await fetched(context, (503, {"content-type": "text/plain"}, b"later"))
    assert not outcome.ok and "status 503" in outcome.text and "later" in outcome.text


async def test_what_is_no_text_is_not_shown(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="image/png, 4 bytes"):
        await fetched(context, (200, {"content-type": "image/png"}, b"\x89PNG"))


async def test_a_hostile_page_ends_within_bounds(context: ToolContext) -> None:
    deep = b"<div>" * 20_000 + b"words" + b"</div>" * 20_000
    outcome = await fetched(context, (200, {"content-type": "text/html"}, deep))
    assert "words" in outcome.text and "this is its plain text" in outcome.text


def test_bare_words_are_had_of_any_page_in_linear_time() -> None:
    assert bare_text(PAGE.decode()).splitlines()[:4] == ["The guide", "Elsewhere", "Install", "Run make & wait."]
    assert "steal" not in bare_text(PAGE.decode())
    assert bare_text("a < b <!-- gone <p> --> c &lt;p&gt;<br>d<!-- open") == "a < b c <p>\nd"
    for piece in ("<script>", "<!--", "<", "<a", "</style", "<svg><", "&", "<ul><li>x"):
        assert_linear(lambda times: bare_text(piece * times), 5_000)  # noqa: B023


@pytest.mark.parametrize(
    ("charset", "body", "wanted"),
    [
        ("punycode", b"-" + b"ab" * 200_000, "-abab"),
        ("unicode_escape", rb"\ud800 hi", r"\ud800 hi"),
        ("utf-7", b"+2AA- hi", "+2AA- hi"),
        ("idna", b"hi", "hi"),
        ("undefined", b"hi", "hi"),
        ("Shift_JIS", b"\x93\xfa\x96{", "日本"),
        ("windows-1251", b"\xef\xf0\xe8\xe2\xe5\xf2", "привет"),
        ("utf-16le", "häuser".encode("utf-16-le"), "häuser"),
    ],
)
async def test_a_server_names_an_encoding_of_text_or_none(
    context: ToolContext, charset: str, body: bytes, wanted: str
) -> None:
    outcome = await fetched(context, (200, {"content-type": f"text/plain; charset={charset}"}, body))
    assert outcome.text.split("\n", 1)[1].startswith(wanted)
    outcome.text.encode()


@pytest.mark.parametrize(
    ("charset", "codec", "words"),
    [
        ("gb2312", "gbk", "朱镕基与囧事"),
        ("iso-8859-1", "cp1252", "“It’s” – 5 €"),
        ("us-ascii", "cp1252", "“It’s”"),
        ("shift_jis", "cp932", "①髙橋"),
        ("euc-kr", "cp949", "똠방각하"),
        ("iso-8859-1", "utf-8-sig", "häuser"),
    ],
)
async def test_a_page_is_read_as_browsers_read_what_it_declares(
    context: ToolContext, charset: str, codec: str, words: str
) -> None:
    outcome = await fetched(
        context, (200, {"content-type": f"text/plain; charset={charset}"}, words.encode(codec))
    )
    assert outcome.text.split("\n", 1)[1] == words
    page = f'<!doctype html><meta charset="{charset}"><p>'.encode() + words.encode(codec)
    outcome = await fetched(context, (200, {"content-type": "text/html"}, page))
    assert outcome.text.endswith(words)


async def test_control_sequences_do_not_reach_the_model(context: ToolContext) -> None:
    text = b"one\r\n\x1b]52;c;aGk=\x07two \xe2\x80\xaegp3\n"
    outcome = await fetched(context, (200, {"content-type": "text/plain"}, text))
    assert outcome.text.endswith("\none\ntwo ⟨U+202E⟩gp3\n")
    outcome = await fetched(context, (200, {"content-type": "text/\x1b[31mred"}, b"hi"))
    assert "of no stated type" in outcome.text and "\x1b" not in outcome.text + outcome.display


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://example.com:81/x", 'redirects to another server, http://example.com:81, and .*{"url":"http://ex'),
        ("file:///etc/passwd", "redirects to 'file:///etc/passwd', which is not a web page"),
    ],
)
async def test_a_redirect_is_named_and_not_offered_when_it_is_no_page(
    context: ToolContext, location: str, told: str
) -> None:
    text = (await fetched(context, (302, {"location": location}, b""))).text
    assert re.search(told, text) and ("To continue" in text) == location.startswith("http")


def test_what_cannot_be_fetched_is_not_asked_for(context: ToolContext) -> None:
    for url in ("http://127.0.0.1/", "http://localhost:3000/", "http://10.0.0.8/"):
        with pytest.raises(ToolError, match="Nothing was fetched"):
            WebFetch().actions(WebFetchParams(url), context)
    assert WebFetch(("localhost:3000",)).actions(WebFetchParams("http://localhost:3000/"), context)


def test_the_action_names_the_host_that_is_contacted(context: ToolContext) -> None:
    tool = WebFetch()
    assert tool.actions(WebFetchParams("https://Docs.Python.org./3/"), context) == (
        Fetch("https://Docs.Python.org./3/", "docs.python.org"),
    )
    with pytest.raises(ToolError, match="Nothing was fetched"):
        tool.actions(WebFetchParams("file:///etc/passwd"), context)


def test_a_page_that_is_all_navigation_keeps_it() -> None:
    assert "[A](a)" in markdown("<body><nav><a href=a>A</a> and many more words here</nav></body>")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<ol><li>a<li>b<ul><li>c<li>d</ul><li>e</ol>", "1. a\n2. b\n   - c\n   - d\n3. e"),
        ("<table><thead><tr><th>h<th>i<tbody><tr><td>a<td>b</table>", "| h | i |\n| --- | --- |\n| a | b |"),
        ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\n:   b\n\nc\n:   d"),
        ("<details><summary>a</summary>b</details><address>c</address>d", "a\n\nb\n\nc\n\nd"),
        ("<form><p>most of the page</p></form><p>rest</p>", "most of the page\n\nrest"),
        ("<form>find</form><p>most of the page</p>", "most of the page"),
        (
            "<p>seen, as all of this<b hidden>x</b><i style='color:red; DISPLAY: none'>y</i></p>",
            "seen, as all of this",
        ),
        ("<body style='visibility:hidden'><p>until a script runs</p></body>", "until a script runs"),
        ("<svg><title>Logo</title></svg><p>a</p>", "a"),
    ],
)
def test_the_text_is_what_a_browser_shows(page: str, text: str) -> None:
    assert markdown(page) == text


def test_many_items_without_an_end_take_linear_time() -> None:
    assert_linear(lambda count: markdown("<ul>" + "<li>a " * count), 100)


ANSWERS = {
    "brave": b'{"web": {"results": [{"title": "T", "url": "https://a.b/", "description": "x <strong>y</strong>"}]}}',
    "tavily": b'{"results": [{"title": "T", "url": "https://a.b/", "content": "x y", "score": 0.9}]}',
    "exa": b'{"results": [{"title": "T", "url": "https://a.b/", "text": "x y", "publishedDate": "2026-01-01"}]}',
    "searxng": b'{"query": "q", "results": [{"title": "T", "url": "https://a.b/", "content": "x y"}]}',
}


@pytest.mark.parametrize("name", ENGINES)
async def test_every_engine_is_asked_in_its_way(context: ToolContext, name: str) -> None:
    body = (200, {"content-type": "application/json"}, ANSWERS[name])
    with site({"/search": body, "/res/v1/web/search": body}) as web:
        tool = search_tool(name, web.url, {ENGINES[name].key_env: "k3y"}, ())
        assert tool is not None
        outcome = await tool.run(WebSearchParams("two words"), context)
        assert outcome.text == "T\nhttps://a.b/\nx y"
        method, path, headers, sent = web.asked[0]
        assert ("two+words" in path) if method == "GET" else b'"two words"' in sent
        assert not ENGINES[name].key_env or any("k3y" in value for value in headers.values())


async def test_a_refusal_is_told_without_the_key(context: ToolContext) -> None:
    with site({"/search": (401, {}, b"bad key k3y")}) as web:
        tool = search_tool("tavily", web.url, {"TAVILY_API_KEY": "k3y"}, ())
        assert tool is not None
        with pytest.raises(ToolError, match="status 401: bad key …"):
            await tool.run(WebSearchParams("q"), context)


async def test_a_key_is_sent_to_nobody_else(context: ToolContext) -> None:
    with site({"/": (200, {}, b"{}")}) as thief:
        moved = (302, {"location": thief.url}, b"")
        with site({"/search": moved, "/res/v1/web/search": moved}) as web:
            for name in ("brave", "tavily"):
                tool = search_tool(name, web.url, {ENGINES[name].key_env: "k3y"}, ("127.0.0.1",))
                assert tool is not None
                with pytest.raises(ToolError, match="redirects to"):
                    await tool.run(WebSearchParams("q"), context)
        assert not thief.asked


async def test_an_odd_answer_is_told(context: ToolContext) -> None:
    for body in (b"no", b"[]", b'{"results": 3}', b'{"results": null}'):
        with site({"/search": (200, {}, body)}) as web:
            tool = search_tool("exa", web.url, {"EXA_API_KEY": "k"}, ())
            assert tool is not None
            with pytest.raises(ToolError, match="cannot be read"):
                await tool.run(WebSearchParams("q"), context)


def test_search_is_off_without_a_key() -> None:
    assert search_tool(None, None, {}, ()) is None
    assert search_tool(None, None, {"EXA_API_KEY": "k"}, ()) is not None
    assert "web_search" not in default_registry().names
    with pytest.raises(ToolError, match="BRAVE_API_KEY"):
        search_tool("brave", None, {}, ())
    with pytest.raises(ToolError, match="search_url"):
        search_tool("searxng", None, {}, ())
