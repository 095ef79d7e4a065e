"""The page of a plan in a real browser: it pans, zooms, shows details and needs no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_factory import AgentMiddleware, Topology, hook_config, plan_agent
from processes import Processes, owned
from samples import find
from waiting import until

pytest.importorskip("pygraphviz", reason="the extra draw is not installed")

BROWSER = next(filter(None, map(shutil.which, ["chromium", "google-chrome", "chrome"])), None)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(os.name == "nt", reason="speaks to the browser through inherited pipes"),
]

HOSTILE = "</script><img src=x onerror=document.title='broken'>"


class Guard(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""

    def around_model(self, request: Any) -> Any:
        return (yield request)


def planned() -> Topology:
    return plan_agent(tools=[find], middleware=[Guard(), Guard(name=HOSTILE)])


class Browser:
    """A headless Chromium, spoken to in its own protocol through two pipes."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            f"--user-data-dir={folder}",
            # As root, in a container, Chromium cannot use its sandbox.
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
        ]
        # Chromium listens at 3 and answers at 4.
        start = 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1'
        command = ["sh", "-c", start, BROWSER, *options]
        pipe = subprocess.PIPE
        process = processes.start(command, stdin=pipe, stdout=pipe, text=False)
        assert process.stdin is not None
        assert process.stdout is not None
        self.reader, self.writer = process.stdout, process.stdin
        self.left, self.count, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, **params: Any) -> Any:
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        self.writer.flush()
        while (answer := self.receive()).get("id") != self.count:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self.left:
            more = os.read(self.reader.fileno(), 65536)
            assert more, "the browser has gone"
            self.left += more
        text, _, self.left = self.left.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


class Page:
    """A page in it, and what a reader does there."""

    def __init__(self, browser: Browser, url: str, width: int = 1200, height: int = 800) -> None:
        self.browser = browser
        browser.session = ""
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.send("Target.attachToTarget", targetId=target, flatten=True)
        browser.session = attached["sessionId"]
        browser.events.clear()
        for domain in ("Page", "Runtime", "Network", "Log"):
            browser.send(f"{domain}.enable")
        browser.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        browser.send("Emulation.setFocusEmulationEnabled", enabled=True)
        browser.send("Page.navigate", url=url)
        self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")
        self.settle()

    def run(self, code: str) -> Any:
        answer = self.browser.send(
            "Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        until(lambda: self.run(condition))

    def settle(self) -> None:
        self.run("new Promise(yes => requestAnimationFrame(() => requestAnimationFrame(yes)))")

    def view(self) -> list[float]:
        text: str = self.run("document.querySelector('#stage svg').getAttribute('viewBox')")
        return [float(number) for number in text.split()]

    def middle(self, selector: str) -> tuple[float, float]:
        x, y = self.run(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return x, y

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.browser.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def point(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)
        self.settle()

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.settle()

    def drag(self, x: float, y: float, dx: float, dy: float) -> None:
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        for part in (0.5, 1):
            self.mouse("mouseMoved", x + dx * part, y + dy * part, button="left", buttons=1)
        self.mouse("mouseReleased", x + dx, y + dy, button="left", clickCount=1)
        self.settle()

    def press(self, key: str, text: str = "") -> None:
        code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
        more = {"text": text} if text else {}
        self.browser.send(
            "Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **more
        )
        self.browser.send("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def panel(self) -> str:
        text: str = self.run("document.querySelector('aside article.on').innerText")
        return text

    def fetched(self) -> list[str]:
        sent = [e for e in self.browser.events if e.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with owned() as processes:
        yield Browser(processes, tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "plan.html"
    path.write_text(planned().to_html(), encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Browser, file: Path) -> Page:
    return Page(browser, file.as_uri())


def test_it_shows_the_plan_without_network_and_console_messages(page: Page, file: Path) -> None:
    assert page.run("document.documentElement.classList.contains('live')")
    assert page.panel().startswith("Order")
    assert page.fetched() == [file.as_uri()]
    methods = {event["method"] for event in page.browser.events}
    assert not methods & {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}


def test_a_hostile_name_is_only_a_name(page: Page) -> None:
    assert page.run("document.title") == "The plan of an agent"
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("document.querySelectorAll('script').length") == 1


def test_dragging_moves_the_picture_and_is_not_a_click(page: Page) -> None:
    before = page.view()
    scale = page.run("document.querySelector('#stage').clientWidth") / before[2]
    page.drag(*page.middle("#n1 .core"), 90, 60)
    moved = [before[0] - 90 / scale, before[1] - 60 / scale]
    assert page.view()[:2] == pytest.approx(moved, abs=0.1)
    page.point(5, 400)
    assert page.panel().startswith("Order")


def test_the_wheel_zooms_where_the_pointer_is(page: Page) -> None:
    x, y = page.middle("#n1 .core")
    width = page.view()[2]
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    page.settle()
    assert page.view()[2] < width * 0.8
    assert page.middle("#n1 .core") == pytest.approx((x, y), abs=2)


def test_buttons_and_keys_zoom_fit_and_move(page: Page) -> None:
    first = page.view()
    page.click(*page.middle("#closer"))
    assert page.view()[2] == pytest.approx(first[2] / 1.25)
    page.press("-", "-")
    assert page.view() == pytest.approx(first)
    page.press("ArrowRight")
    assert page.view()[0] > first[0]
    page.click(*page.middle("#farther"))
    page.click(*page.middle("#fit"))
    assert page.view() == pytest.approx(first)


def test_pointing_shows_details_and_a_click_keeps_them(page: Page) -> None:
    page.point(*page.middle("#n1 .core"))
    assert page.panel().startswith("Guard.before_model")
    assert "1 of 2" in page.panel()
    assert page.run("document.querySelector('#e0').classList.contains('near')")
    page.point(5, 400)
    assert page.panel().startswith("Order")
    page.click(*page.middle("#n1 .core"))
    page.point(5, 400)
    assert page.panel().startswith("Guard.before_model")
    page.press("Escape")
    assert page.panel().startswith("Order")


def test_an_arrow_shows_its_reasons_in_words(page: Page) -> None:
    page.click(*page.middle(".edge.jump .label"))
    assert "declares this jump in can_jump_to" in page.panel()


def test_links_in_the_panel_open_other_parts(page: Page) -> None:
    page.click(*page.middle("#n1 .core"))
    page.click(*page.middle("aside article.on li a"))
    assert "->" in page.panel()
    assert page.run("document.querySelectorAll('.chosen').length") == 1


def test_the_keyboard_alone_reaches_every_part(page: Page) -> None:
    page.run("document.getElementById('theme').focus()")
    page.press("Tab")
    assert page.panel().startswith("__start__ -> Guard.before_model")
    page.press("Enter", "\r")
    page.point(5, 400)
    assert page.panel().startswith("__start__ -> Guard.before_model")


def test_the_search_marks_every_place_of_a_middleware(page: Page) -> None:
    page.press("/", "/")
    page.browser.send("Input.insertText", text="guard")
    page.settle()
    assert page.run("document.querySelector('#found').textContent") == "3 places"
    assert page.run("document.querySelector('#n1').classList.contains('found')")
    assert page.run("document.querySelector('.model .layer.found') !== null")
    assert page.run("document.querySelector('.node.tools').classList.contains('faint')")
    page.press("Enter", "\r")
    assert "Guard" in page.panel()
    page.press("Escape")
    assert page.run("document.querySelectorAll('.found, .faint').length") == 0


def test_the_theme_can_be_chosen(page: Page) -> None:
    def paper() -> str:
        value: str = page.run("getComputedStyle(document.querySelector('.paper')).fill")
        return value

    bright = paper()
    for _ in range(2):
        page.click(*page.middle("#theme"))
    assert page.run("document.documentElement.dataset.theme") == "night"
    assert paper() != bright
    assert page.run("getComputedStyle(document.body).backgroundColor") == paper()


def test_a_link_to_a_part_opens_it(browser: Browser, file: Path) -> None:
    assert Page(browser, f"{file.as_uri()}#about-n1").panel().startswith("Guard.before_model")


def test_it_fits_a_telephone(browser: Browser, file: Path) -> None:
    page = Page(browser, file.as_uri(), width=390, height=800)
    assert page.run("document.documentElement.scrollWidth") <= 390
    assert page.run("document.querySelector('#stage').clientHeight") > 200


def test_without_its_script_everything_can_be_read(browser: Browser, file: Path) -> None:
    page = Page(browser, "about:blank")
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    browser.send("Page.navigate", url=file.as_uri())
    page.wait("document.readyState === 'complete' && document.querySelector('article') !== null")
    assert not page.run("document.documentElement.classList.contains('live')")
    hidden = "[...document.querySelectorAll('article')].filter(a => !a.offsetHeight).length"
    assert page.run(hidden) == 0
    assert page.run("document.querySelector('#controls').offsetHeight") == 0
    assert page.run("document.querySelector('#stage svg').clientHeight") > 300
