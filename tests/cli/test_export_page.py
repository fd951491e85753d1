"""Exported pages and reports in a real browser: nothing overflows on a phone, nothing is fetched, and the browser
has nothing to complain of."""

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.fleet.report.compare import compare
from agent_cli.fleet.report.page import html, html_of_comparison
from agent_cli.fleet.report.summary import summarize
from agent_cli.store.export.formats import exported
from benchmarks.stats import session
from tests.fleet.report.made import a_run, result, task
from tests.store.talk import records

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium: apt-get install -y chromium")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
)  # fmt: skip


TOOLS = ("read_file", "grep", "shell", "edit_file", "web_fetch")


class Browser:
    """A headless Chromium with one tab at a time, spoken to over its debugging pipe."""

    def __init__(self, profile: Path) -> None:
        asks, self._out = os.pipe()
        self._in, answers = os.pipe()
        command = ["bash", "-c", f'exec "$0" "$@" 3<&{asks} 4>&{answers}', str(BROWSER), *OPTIONS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}"],
            pass_fds=(asks, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(asks)
        os.close(answers)
        self._number, self._rest, self._tab = 0, b"", ""
        self.events: list[dict[str, Any]] = []

    def new_tab(self) -> None:
        """Close the tab, and go on in a new one."""
        self.events, self._tab = [], ""
        for other in self.ask("Target.getTargets")["targetInfos"]:
            if other["type"] == "page":
                self.ask("Target.closeTarget", targetId=other["targetId"])
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._tab = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Network", "Log", "Runtime", "Page"):
            self.ask(f"{part}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._tab:
            message["sessionId"] = self._tab
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def show(self, page: Path, width: int) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
        )
        seen = len(self.events)
        self.ask("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events[seen:]):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def overflowing(self) -> Any:
        wide = (
            "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1"
        )
        return self.value(f"{wide} && !e.closest('.wide')).map(e => e.outerHTML.slice(0, 80))")

    def told(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event.get("method") == method]

    def _next(self, timeout_s: float = 20.0) -> dict[str, Any]:
        until = time.monotonic() + timeout_s
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            assert data, "the browser does not answer"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def close(self) -> None:
        os.close(self._out)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        os.close(self._in)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def browser(opened: Browser) -> Browser:
    opened.new_tab()
    return opened


def test_the_page_is_read_on_a_phone_and_on_a_desk_without_network_or_complaint(
    browser: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "talk.html"
    page.write_text(exported(records(), "html"), encoding="utf-8")
    for width in (360, 1200):
        browser.show(page, width)
        browser.value("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert browser.value("document.documentElement.scrollWidth - innerWidth") <= 0
        assert browser.overflowing() == []
        drawn = "[...document.querySelectorAll('.pictures svg')].map(e => e.getBoundingClientRect().height > 100)"
        assert browser.value(drawn) == [True] * 4
        assert browser.value("getComputedStyle(document.querySelector('.diff .add')).backgroundColor") != (
            "rgba(0, 0, 0, 0)"
        ), "the style sheet is in force"
    text = browser.value("document.querySelector('main').textContent")
    for words in ("Find why the tests fail", "assert 0.5 == 1.0", "return round(sum(price", "And now step 8"):
        assert words in text
    assert browser.value("document.title") == "The tests of this project fail. Find out why, mend the…"
    assert browser.value("document.images[0].naturalWidth") == 4
    addresses = {each["request"]["url"] for each in browser.told("Network.requestWillBeSent")}
    assert {address for address in addresses if not address.startswith("data:")} == {page.as_uri()}
    assert browser.told("Log.entryAdded") == browser.told("Runtime.consoleAPICalled") == []
    assert browser.told("Runtime.exceptionThrown") == []


def corner_with_a_tool(browser: Browser) -> tuple[float, float] | None:
    """Move the mouse over the time line until it says that a tool is there; return the picture's corner."""
    browser.value("document.querySelector('canvas').scrollIntoView({block: 'center', behavior: 'instant'})")
    left, top = browser.value("(r => [r.left, r.top])(document.querySelector('canvas').getBoundingClientRect())")
    for x in range(90, 300, 2):
        browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=left + x, y=top + 60)
        if browser.value("document.querySelector('.at').textContent").partition(":")[0] in TOOLS:
            return left, top
    return None


def test_the_time_line_is_moved_and_magnified_by_keys_and_mouse(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "long.html"
    page.write_text(exported(list(session(200)), "html", {"5ub5ub01": "explore-1"}), encoding="utf-8")

    def drawn() -> str:
        frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done("
        picture = "document.querySelector('canvas').toDataURL()"
        asked = browser.ask("Runtime.evaluate", expression=f"{frames}{picture}))))", awaitPromise=True)
        return str(asked["result"]["value"])

    def press(*keys: str) -> None:
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                browser.ask("Input.dispatchKeyEvent", type=kind, key=key)

    for width in (360, 1200):
        browser.show(page, width)
        browser.value("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert browser.value("document.documentElement.scrollWidth - innerWidth") <= 0
        assert browser.overflowing() == []
        browser.value("document.querySelector('canvas').focus()")
        whole = drawn()
        press("ArrowRight", "ArrowRight")
        said = browser.value("document.querySelector('.at').textContent")
        assert said.startswith("model, answering, openai/gpt-demo: ") and "turn 1" in said
        press("+", "+", "+")
        near = drawn()
        browser.value("document.querySelector('[aria-label=later]').click()")
        assert len({whole, near, drawn()}) == 3
        press("Escape", "0")
        assert drawn() == whole
        press("PageDown", "PageDown", "Enter")
        assert browser.value("location.hash") == "#turn-2"
        end = time.monotonic() + 60
        while (corner := corner_with_a_tool(browser)) is None:  # the page may still be moving to the turn
            assert time.monotonic() < end, "no tool under the mouse"
            drawn()
        left, top = corner
        press("+", "+")
        before = drawn()
        for kind, x in (("mousePressed", 200), ("mouseMoved", 260), ("mouseReleased", 260)):
            browser.ask("Input.dispatchMouseEvent", type=kind, x=left + x, y=top + 40, button="left", clickCount=1)
        assert drawn() != before
    assert "explore-1" in browser.value("document.querySelector('.lists').innerText")
    assert browser.told("Log.entryAdded") == browser.told("Runtime.exceptionThrown") == []


def test_reports_are_read_on_a_phone_and_on_a_desk_without_network_or_complaint(
    browser: Browser, tmp_path: Path
) -> None:
    tasks, lines = a_run()
    named = task("a-long-name-" * 8)
    summary = summarize([*tasks, named], [*lines, result(named)], about={"Suite": "/a/path/" + "x" * 90})
    worse = summarize([*tasks, named], [result(each, outcome="unsolved") for each in [*tasks, named]])
    pages = {"report": html(summary), "comparison": html_of_comparison(compare(worse, summary, ("A" * 60, "B")))}
    for name, content in pages.items():
        page = tmp_path / f"{name}.html"
        page.write_text(content, encoding="utf-8")
        for width in (360, 1200):
            browser.show(page, width)
            assert browser.value("document.documentElement.scrollWidth - innerWidth") <= 0, (name, width)
            assert browser.overflowing() == []
            drawn = "[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect().height > 20)"
            assert set(browser.value(drawn)) == {True}
    colour = "getComputedStyle(document.querySelector('svg .after')).fill"
    assert browser.value(colour) != "rgb(0, 0, 0)", "the style sheet is in force"
    addresses = {each["request"]["url"] for each in browser.told("Network.requestWillBeSent")}
    assert {Path(address).suffix for address in addresses if not address.startswith("data:")} == {".html"}
    assert browser.told("Log.entryAdded") == browser.told("Runtime.exceptionThrown") == []
