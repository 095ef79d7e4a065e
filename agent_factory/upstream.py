"""What the package relies on in LangGraph and langchain-core that they do not publish.

Each reliance stands here once, with the reason and the version it was seen in, and has a canary in
``tests/test_upstream.py``: an upgrade that changes one fails there first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


COPY_BRANCH = "__copy__"
"""Node name with which `update_state(config, None, COPY_BRANCH)` copies a checkpoint without the
answers to its interrupts (langgraph 1.2.22, `pregel/main.py`, `Pregel.bulk_update_state`).

The name is not exported. `agent_factory.review` needs it to answer an old interrupt once more.
"""

CLEAR_TASKS = "__end__"
"""Node name with which `update_state(config, None, CLEAR_TASKS)` ends the tasks of the current
step and keeps what they wrote (langgraph 1.2.22, `pregel/main.py`, `Pregel.bulk_update_state`).

The name is `langgraph.graph.END`; that it has this meaning is only said in a source comment.
"""


def model_params(model: Any, /, **settings: Any) -> Mapping[str, Any]:
    """The name and the provider of a chat model, as it reports them to LangSmith.

    `_get_ls_params` (langchain-core 1.7, `language_models/chat_models.py`) is private, but every
    provider package implements it, and no public method gives the provider. A model without it
    gives an empty dict.
    """
    get_params = getattr(model, "_get_ls_params", None)
    return get_params(**settings) if get_params else {}


def task_identity(runtime: Any) -> object:
    """An object that identifies one execution of a node; None without a runtime.

    LangGraph makes a new `Runtime` for each task (langgraph 1.2.22, `pregel/_algo.py`,
    `prepare_single_task`), so the object itself identifies the task. A budget adds up what was
    spent within one task.
    """
    return runtime
