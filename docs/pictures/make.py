"""Make the pictures of the documentation: `python docs/pictures/make.py`.

The SVG needs the extra `draw`. The PNGs are what Chromium shows of it and of the page; without
Chromium they stay as they are.
"""

from __future__ import annotations

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

HERE = Path(__file__).resolve().parent


@tool
def search_orders(query: str) -> str:
    """Find orders."""
    return query


@tool
def refund(order_id: str, euros: float) -> str:
    """Pay money back for an order."""
    return f"{euros} euros for {order_id}"


@tool(return_direct=True)
def send_receipt(order_id: str) -> str:
    """Show the customer a receipt, as it is."""
    return order_id


def plan() -> Topology:
    """The plan of a support desk, of built-ins alone."""
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
    )


def main() -> None:
    """Write topology.svg, and where Chromium is installed topology.png and topology_page.png."""
    picture = HERE / "topology.svg"
    picture.write_text(plan().to_svg(), encoding="utf-8")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("No Chromium: the PNGs stay as they are.")
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
    """Show an address to Chromium and keep what it shows."""
    with tempfile.TemporaryDirectory() as profile:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            f"--screenshot={target}",
        ]
        subprocess.run([browser, *options, url], check=True, capture_output=True, timeout=60)


if __name__ == "__main__":
    main()
