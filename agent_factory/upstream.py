"""What the package relies on in LangGraph and langchain-core that they do not publish.

Each reliance stands here once, with the reason and the version it was seen in, and has a canary in
``tests/test_upstream.py``: an upgrade that changes one fails there first.
"""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig


def read_channels(config: RunnableConfig) -> dict[str, Any]:
    """Return the state of the graph that runs, read from its channels; empty outside of a graph.

    langgraph/prebuilt/tool_node.py, 1.2: `_extract_state` does the same for calls that arrive by
    `Send` and bring no state. Pregel installs `partial(local_read, scratchpad, channels, ...)`.
    """
    read = config.get("configurable", {}).get("__pregel_read")
    if read is None:
        return {}
    state: dict[str, Any] = read(list(read.args[1]), True)
    return state
