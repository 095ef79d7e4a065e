"""The page of a plan in a browser: it pans, zooms, shows details and needs no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from agent_factory import AgentMiddleware, hook_config, load_topology, plan_agent
from samples import find
from web.conftest import NewPage

pytest.importorskip("pygraphviz", reason="the extra draw is not installed")

HOSTILE = "</script><img src=x onerror=document.title='broken'>"


class Guard(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""

    def around_model(self, request: Any) -> Any:
        return (yield request)


@pytest.fixture
def address(tmp_path: Path) -> str:
    """The folder that the page is in."""
    safe = plan_agent(tools=[find], middleware=[Guard(), Guard(name="Evil")])
    plan = load_topology(safe.to_json().replace("Evil", HOSTILE))
    (tmp_path / "plan.html").write_text(plan.to_html(), encoding="utf-8")
    return f"file://{tmp_path}"


@pytest.fixture
def page(new_page: NewPage) -> Page:
    return new_page("/plan.html", width=1200, height=800)


def assert_shown(page: Page, words: str) -> None:
    """Wait until the panel begins with these words."""
    expect(page.locator("aside article.on")).to_have_text(re.compile(rf"^\s*{re.escape(words)}"))


def view(page: Page) -> list[float]:
    """Which part of the picture is visible, once the page has drawn it."""
    page.evaluate("new Promise(yes => requestAnimationFrame(() => requestAnimationFrame(yes)))")
    text: str = page.evaluate("document.querySelector('#stage svg').getAttribute('viewBox')")
    return [float(number) for number in text.split()]


def middle(page: Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).first.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_it_shows_the_plan_and_a_hostile_name_is_only_a_name(page: Page) -> None:
    expect(page.locator("html.live")).to_have_count(1)
    assert_shown(page, "Order")
    expect(page).to_have_title("The plan of an agent")
    expect(page.locator("img")).to_have_count(0)
    expect(page.locator("script")).to_have_count(1)


def test_dragging_moves_the_picture_and_is_not_a_click(page: Page) -> None:
    before = view(page)
    scale = page.evaluate("document.querySelector('#stage').clientWidth") / before[2]
    x, y = middle(page, "#n1 .core")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 90, y + 60, steps=2)
    page.mouse.up()
    moved = [before[0] - 90 / scale, before[1] - 60 / scale]
    assert view(page)[:2] == pytest.approx(moved, abs=0.1)
    page.mouse.move(5, 400)
    assert_shown(page, "Order")


def test_the_wheel_the_buttons_and_keys_zoom_fit_and_move(page: Page) -> None:
    first = view(page)
    page.click("#closer")
    assert view(page)[2] == pytest.approx(first[2] / 1.25)
    page.keyboard.press("-")
    assert view(page) == pytest.approx(first)
    page.keyboard.press("ArrowRight")
    assert view(page)[0] > first[0]
    page.click("#farther")
    page.click("#fit")
    assert view(page) == pytest.approx(first)
    x, y = middle(page, "#n1 .core")
    page.mouse.move(x, y)
    page.mouse.wheel(0, -240)
    assert view(page)[2] < first[2] * 0.8
    assert middle(page, "#n1 .core") == pytest.approx((x, y), abs=2), "where the pointer is"


def test_pointing_shows_details_and_a_click_keeps_them(page: Page) -> None:
    page.mouse.move(*middle(page, "#n1 .core"))
    assert_shown(page, "Guard.before_model")
    expect(page.locator("aside article.on")).to_contain_text("1 of 2")
    expect(page.locator("#e0")).to_have_class(re.compile(r"\bnear\b"))
    page.mouse.move(5, 400)
    assert_shown(page, "Order")
    page.mouse.click(*middle(page, "#n1 .core"))
    page.mouse.move(5, 400)
    assert_shown(page, "Guard.before_model")
    page.click("aside article.on li a")
    expect(page.locator("aside article.on")).to_contain_text("->")
    expect(page.locator(".chosen")).to_have_count(1)
    page.keyboard.press("Escape")
    assert_shown(page, "Order")
    page.mouse.click(*middle(page, ".edge.jump .label"))
    panel = page.locator("aside article.on")
    expect(panel).to_contain_text("declares this jump in can_jump_to")


def test_the_keyboard_alone_reaches_every_part(page: Page) -> None:
    page.focus("#theme")
    page.keyboard.press("Tab")
    assert_shown(page, "__start__ -> Guard.before_model")
    page.keyboard.press("Enter")
    page.mouse.move(5, 400)
    assert_shown(page, "__start__ -> Guard.before_model")


def test_the_search_marks_every_place_of_a_middleware(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("guard")
    expect(page.locator("#found")).to_have_text("3 places")
    expect(page.locator("#n1.found, .model .layer.found")).to_have_count(2)
    expect(page.locator(".node.tools.faint")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("aside article.on")).to_contain_text("Guard")
    page.keyboard.press("Escape")
    expect(page.locator(".found, .faint")).to_have_count(0)


def test_the_theme_can_be_chosen(page: Page) -> None:
    paper = "getComputedStyle(document.querySelector('.paper')).fill"
    bright = page.evaluate(paper)
    for _ in range(2):
        page.click("#theme")
    expect(page.locator("html")).to_have_attribute("data-theme", "night")
    assert page.evaluate(paper) != bright
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == page.evaluate(paper)


def test_a_link_to_a_part_opens_it_and_a_telephone_has_room(new_page: NewPage) -> None:
    page = new_page("/plan.html#about-n1", width=390, height=800)
    assert_shown(page, "Guard.before_model")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('#stage').clientHeight") > 200


def test_without_its_script_everything_can_be_read(new_page: NewPage) -> None:
    page = new_page("/plan.html", java_script_enabled=False)
    expect(page.locator("html.live")).to_have_count(0)
    for article in page.locator("article").all():
        expect(article).to_be_visible()
    expect(page.locator("#controls")).to_be_hidden()
    box = page.locator("#stage svg").first.bounding_box()
    assert box is not None
    assert box["height"] > 300
