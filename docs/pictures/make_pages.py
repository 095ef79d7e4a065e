"""Make the pictures of the studio and the inbox: `python docs/pictures/make_pages.py [NAME ...]`.

A service with a worker answers in this process, and Chromium looks at it. With names, only these
pictures are made.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import uvicorn
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from playwright.sync_api import sync_playwright

from agent_factory import create_agent
from agent_factory.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    PIIMiddleware,
    Rule,
    SummarizationMiddleware,
    ToolPolicy,
    ToolRetryMiddleware,
)
from agent_factory.serve import create_app
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel

HERE = Path(__file__).resolve().parent
QUESTIONS = {
    "t-1042": "My lamp arrived broken. Can I have my money back?",
    "t-1041": "I was charged twice for order B-2007.",
    "t-1040": "The coat is too large, I sent it back last week.",
    "t-1039": "Please cancel order C-3110, it was a mistake.",
}
RULES = ToolPolicy(
    Rule("search_*", "allow"),
    Rule("refund", "deny", when={"euros": {">": 1000}}, reason="The office pays these."),
    Rule(
        "refund",
        "ask",
        when={"euros": {">": 100}},
        description="A refund of over 100 euros",
        remember=7 * 86400,
    ),
    Rule("refund", "allow"),
)
TABLE = """Three orders are open:

| order | item | euros |
|---|---|--:|
| A-1001 | lamp | 120.50 |
| B-2007 | chair | 89.00 |
| C-3110 | desk | 310.00 |

```python
total = sum(order.euros for order in orders)  # 519.50
```
"""
TOKENS: Any = {"input_tokens": 1430, "output_tokens": 96, "total_tokens": 1526}
TOKENS["input_token_details"] = {"cache_read": 1120}


def search_orders(customer: str) -> str:
    """Search the orders of a customer."""
    return '{"orders": [{"id": "A-1001", "item": "lamp", "euros": 120.5}]}'


def refund(order_id: str, euros: float, reason: str = "") -> str:
    """Pay money back to a customer."""
    return f"Refunded {euros:g} euros for {order_id}."


def book_courier(order_id: str) -> str:
    """Book a courier."""
    time.sleep(0.6)
    return "Booked for Thursday."


def print_label(order_id: str) -> str:
    """Print a label."""
    time.sleep(0.4)
    raise ConnectionError("no answer from printer-2.example.com:9100")


def ship(messages: Sequence[BaseMessage]) -> AIMessage:
    """Book a courier, and print a label."""
    time.sleep(0.5)
    args = {"order_id": "C-3110"}
    names = ("book_courier", "print_label")
    calls = [{"name": name, "args": args, "id": uuid4().hex} for name in names]
    return AIMessage("", tool_calls=calls, usage_metadata=TOKENS)


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """Look for the order, refund it, and say so."""
    last = messages[-1]

    def call(name: str, text: str = "", **args: Any) -> AIMessage:
        calls = [{"name": name, "args": args, "id": uuid4().hex}]
        return AIMessage(text, tool_calls=calls, usage_metadata=TOKENS)

    if isinstance(last, HumanMessage) and "table" in last.text:
        return AIMessage(TABLE, usage_metadata=TOKENS)
    if isinstance(last, HumanMessage):
        return call("search_orders", "Let me look at your orders.", customer="Ann Lee")
    if isinstance(last, ToolMessage) and last.name == "search_orders":
        reason = "It arrived broken; three photographs show it."
        return call("refund", order_id="A-1001", euros=120.5, reason=reason)
    text = "I have paid **120.50 euros** back for order `A-1001`. You see them within three days."
    return AIMessage(text, usage_metadata=TOKENS)


def add_versions(service: Service, thread: str) -> None:
    """Make a thread with two versions of a message, and with a call that has run."""
    service.submit("desk", thread=thread, message="What is open?").result(30)
    wait = service.inbox().waits(thread=thread)[0]
    first = service.threads.branches(thread)[0][-1]
    service.decide(wait.id, "reject", by="ann").result(30)
    table = "Show me the open orders as a table."
    service.submit("desk", thread=thread, message=table, checkpoint=first).result(30)
    service.submit("desk", thread=thread, message="Pay the lamp back, please.").result(30)
    wait = service.inbox().waits(thread=thread)[0]
    service.decide(wait.id, "approve", by="ann").result(30)


@contextmanager
def desk() -> Iterator[str]:
    """The address of a desk with some threads."""
    model = ScriptedChatModel([answer] * 1000)
    summarizer = ScriptedChatModel([])
    agent = create_agent(
        model,
        [search_orders, refund],
        name="desk",
        middleware=[
            ModelCallLimitMiddleware(run_limit=20),
            PIIMiddleware("email"),
            SummarizationMiddleware(summarizer, trigger=("messages", 50)),
            HumanInTheLoopMiddleware(RULES),
            ToolRetryMiddleware(tools=["search_orders"]),
        ],
        checkpointer=InMemorySaver(),
    )
    with TemporaryDirectory() as folder, Service(f"sqlite:///{folder}/desk.db") as service:
        service.add("desk", agent, decisions=True, review_within="4h", attachments=["image"])
        shipping = create_agent(ScriptedChatModel([ship] * 10), [book_courier, print_label])
        service.add("shipping", shipping)
        with socket.socket() as place:
            place.bind(("127.0.0.1", 0))
            port = place.getsockname()[1]
        settings = uvicorn.Config(create_app(service), port=port, log_level="warning")
        settings.timeout_graceful_shutdown = 1
        server = uvicorn.Server(settings)
        threading.Thread(target=server.run, daemon=True).start()
        for thread, text in reversed(QUESTIONS.items()):
            service.submit("desk", thread=thread, message=text).result(30)
        done = service.inbox().waits(thread="t-1040")[0]
        remember = {"seconds": 7 * 86400, "thread": True}
        service.decide(done.id, "approve", by="ann", remember=remember).result(30)
        changed = service.inbox().waits(thread="t-1039")[0]
        args = {**changed.args, "euros": 60.0}
        service.decide(changed.id, "edit", args=args, by="ann", via="page").result(30)
        # Two branches: what if the user had written something else?
        moments = service.threads.history("t-1039")
        begun = next(state for state in moments if len(state.values.get("messages", ())) == 1)
        place = begun.config["configurable"]["checkpoint_id"]
        instead = "Please send order C-3110 to another address."
        service.submit("desk", thread="t-1039", message=instead, checkpoint=place).result(30)
        again = service.inbox().waits(thread="t-1039")[0]
        service.decide(again.id, "reject", by="bob", message="Nobody asked for it.").result(30)
        wait_for_it = "Wait, I found the bill: it was 60 euros."
        service.submit("desk", thread="t-1041", message=wait_for_it, waiting="queue")
        # Archived, so that the pictures of threads are about the desk alone.
        service.threads.create("t-1037", metadata={"archived": True})
        service.submit("shipping", thread="t-1037", message="Send order C-3110 to Ann Lee.")
        add_versions(service, "t-1038")
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True


def main() -> None:
    """Take the pictures that are named, or all."""
    names = sys.argv[1:]
    with desk() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )

        def photograph(name: str, path: str, width: int, height: int, *, dark: bool) -> None:
            if names and name not in names:
                return
            scheme: Any = "dark" if dark else "light"
            size: Any = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            page.goto(address + path)
            page.wait_for_timeout(1500)  # until the last run has lit the plan
            if name in ("run", "run_failed"):
                page.locator(".run-list a").first.click()
                page.wait_for_timeout(500)
            if name == "inbox":
                page.locator(".row a").first.click()
                page.wait_for_timeout(500)
            if name == "inbox_changes":
                page.locator(".row a").first.click()
                page.get_by_text("Change the arguments").click()
                page.get_by_label("euros required").fill("60")
                page.locator(".changes.script").scroll_into_view_if_needed()
            if name in ("inbox_list", "inbox_several"):
                page.get_by_label("all", exact=True).check()
            if name == "inbox_several":
                page.get_by_role("button", name="Approve").click()
                page.wait_for_timeout(500)
            if name == "history":
                page.locator("input[name=from]").nth(2).check()
                page.get_by_role("button", name="Compare").click()
                page.wait_for_timeout(500)
            if name == "studio_chat":
                page.get_by_label("Regenerate this answer").click()
            page.screenshot(path=HERE / f"{name}.png")
            page.close()

        photograph("studio", "/studio/threads/t-1041", 1440, 900, dark=False)
        photograph("studio_done", "/studio/threads/t-1040", 1440, 900, dark=True)
        photograph("studio_phone", "/studio/threads/t-1042", 390, 800, dark=False)
        photograph("studio_chat", "/studio/threads/t-1038", 1440, 1150, dark=False)
        photograph("inbox_list", "/inbox", 1080, 420, dark=False)
        photograph("inbox", "/inbox?text=t-1042", 1440, 900, dark=False)
        photograph("inbox_changes", "/inbox?text=t-1042", 1080, 760, dark=False)
        photograph("inbox_several", "/inbox", 1080, 620, dark=False)
        photograph("approvals", "/inbox/approvals", 1080, 220, dark=False)
        photograph("audit", "/inbox/audit", 1080, 400, dark=False)
        photograph("history", "/studio/threads/t-1039/history", 1080, 1240, dark=False)
        photograph("policy", "/studio/agents/desk/policy", 1080, 360, dark=False)
        photograph("studio_plan", "/studio/agents/desk", 1440, 900, dark=True)
        photograph("runs", "/studio/runs", 1240, 440, dark=False)
        photograph("run", "/studio/runs?text=t-1040", 1240, 620, dark=True)
        photograph("run_failed", "/studio/runs?status=failed", 1240, 640, dark=False)
        browser.close()


if __name__ == "__main__":
    main()
