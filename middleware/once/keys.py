"""Keys of effects, and names of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from langgraph.prebuilt import ToolRuntime

from agent_factory import ToolCallRequest
from agent_factory.middleware._shared.effects import EffectRuntime
from agent_factory.middleware._shared.messages import caller_of

from .effects import EffectError


def idempotency_key(runtime: ToolRuntime[Any, Any]) -> str:
    """The key of the current call, for a provider which does the work once for each key.

    The key is the same when the call runs again, in any process.

    Args:
        runtime: The parameter `runtime: ToolRuntime` of a tool under OnceMiddleware.

    Raises:
        EffectError: The effect of the call is not recorded.

    >>> def pay(euros: int, runtime: ToolRuntime) -> str:
    ...     "Pay a bill."
    ...     return f"Paid {euros} euros under {idempotency_key(runtime)}."
    """
    if not isinstance(runtime, EffectRuntime):
        raise EffectError(
            "idempotency_key",
            "has no key for this call: its effect is not recorded.",
            "Add OnceMiddleware({'name_of_the_tool': 'rerun'}) to the agent.",
        )
    return runtime.idempotency_key


def run_id(thread: object, state: Mapping[str, object]) -> str:
    """The default name of a run of a thread."""
    # The first message of the run distinguishes the runs of a thread.
    return f"{thread}/{state.get('once_run') or ''}"


def configurable_of(request: ToolCallRequest) -> Mapping[str, object]:
    """The coordinates of the run of a call."""
    config: Any = getattr(request.runtime, "config", None) or {}
    configurable: Mapping[str, object] = config.get("configurable") or {}
    return configurable


def key_of(request: ToolCallRequest) -> str:
    """The key of a call, unique and the same whenever the call runs."""
    call, configurable = request.tool_call, configurable_of(request)
    if configurable.get("thread_id") is None:
        raise EffectError(
            call["name"],
            "cannot be recorded without a thread: its call would have no key by which it is known "
            "again.",
            'Pass {"configurable": {"thread_id": "1"}}, and build the agent with a checkpointer.',
        )
    caller = caller_of(request.state["messages"], call["id"])
    if caller is None or caller.id is None:
        raise EffectError(
            call["name"],
            "has no key: no message with an id in the state made this call.",
            "Keep the model's message in the state while its tools run.",
        )
    # The namespace of the graph: the last part is the task of the call.
    namespace = str(configurable.get("checkpoint_ns") or "").rpartition("|")[0]
    parts = [configurable["thread_id"], namespace, caller.id, call["id"], call["name"]]
    # The text is only compared: values beyond JSON may be written as strings.
    text = json.dumps([*parts, call["args"]], default=str, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]
