"""Make the pictures of the documentation and the schema of plans: `python docs/pictures/make.py`.

The SVG needs the extra `draw`. The PNGs are screenshots by Chromium; without it they are not
updated.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from langchain_core.tools import tool

from agent_factory import Topology, plan_agent
from agent_factory.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology.load import json_schema

HERE = Path(__file__).resolve().parent


@tool
def search_orders(query: str) -> str:
    """Find orders."""
    return query


@tool
def refund(order_id: str, euros: float) -> str:
    """Refund an order."""
    return f"{euros} euros for {order_id}"


@tool(return_direct=True)
def send_receipt(order_id: str) -> str:
    """Show the customer a receipt."""
    return order_id


def plan() -> Topology:
    """The plan of a support desk that uses built-in middleware only."""
    model = ScriptedChatModel([])
    return plan_agent(
        tools=[search_orders, refund, send_receipt],
        middleware=[
            ModelCallLimitMiddleware(run_limit=20),
            PIIMiddleware("email"),
            SummarizationMiddleware(model, trigger=("messages", 50)),
            TodoListMiddleware(),
            HumanInTheLoopMiddleware({"refund": True}),
            ModelFallbackMiddleware(model),
            ModelRetryMiddleware(),
            ToolRetryMiddleware(tools=[search_orders]),
        ],
        name="support desk",
    )


def main() -> None:
    """Write the schema, topology.svg and, if Chromium is installed, both PNGs."""
    schema = f"{json.dumps(json_schema(), indent=2)}\n"
    (HERE.parent / "topology.schema.json").write_text(schema, encoding="utf-8")
    picture = HERE / "topology.svg"
    picture.write_text(plan().to_svg(), encoding="utf-8")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium is not installed: the PNGs are not updated.")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "plan.html")
        page.write_text(plan().to_html(), encoding="utf-8")
        width, height = size(plan().to_svg())
        photograph(browser, picture.as_uri(), HERE / "topology.png", width, height)
        model = f"{page.as_uri()}#about-n3"
        photograph(browser, model, HERE / "topology_page.png", 1280, 860)


def size(svg: str) -> tuple[int, int]:
    """Width and height of a picture in pixels, rounded up."""
    width, height = (svg.split(f'{side}="')[1].split('"')[0] for side in ("width", "height"))
    return int(float(width)) + 1, int(float(height)) + 1


def photograph(browser: str, url: str, target: Path, width: int, height: int) -> None:
    """Take a screenshot of a page with Chromium."""
    with tempfile.TemporaryDirectory() as profile:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            f"--screenshot={target}",
        ]
        subprocess.run([browser, *options, url], check=True, capture_output=True, timeout=60)


if __name__ == "__main__":
    main()
