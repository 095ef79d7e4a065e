"""What the package relies on in LangGraph and langchain-core that they do not publish.

Each reliance stands here once, with the reason and the version it was seen in, and has a canary in
``tests/test_upstream.py``: an upgrade that changes one fails there first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.graph import message as langgraph_message


def messages_delta_reducer(default: Callable[..., Any]) -> Callable[..., Any]:
    """Return the reducer by which LangGraph recognizes a delta channel of messages.

    langgraph 1.2, `pregel/_messages.py`: if the reducer of a DeltaChannel is
    `_messages_delta_reducer` itself, all that is written is converted to messages with ids before
    it is stored. Other channels store pairs and strings, and a saver returns a pair as a list of
    two strings. LangGraph calls the function experimental.

    Args:
        default: Reducer to use if LangGraph no longer has it. Lists of messages work then, too.
    """
    reducer: Callable[..., Any] = getattr(langgraph_message, "_messages_delta_reducer", default)
    return reducer
