"""Usage: what the model calls of a run have read, written and cost, by the part that made them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM

from agent_factory.middleware.budget import ModelName, Prices
from agent_factory.runtime.composition import calling_layer
from agent_factory.service.backend import AGENT_KEY

COUNTED = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd")
"""What is counted of each part of an agent."""

_NAMED = ("agent", "part", "model")


class UsageHandler(BaseCallbackHandler):
    """Callback handler that counts the model calls of a run.

    A call that reports no tokens counts as a call. Prices are those of genai-prices, where that is
    installed; the price of a model that it does not know counts as 0.
    """

    # Handlers of an async run otherwise run in a thread, where the part is not known.
    run_inline = True

    def __init__(self) -> None:
        self._lock = Lock()
        self._prices = Prices(None, needed=False)
        self._models: dict[Any, ModelName] = {}
        self._counted: list[dict[str, Any]] = []

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[Any]],
        *,
        run_id: Any,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Remember which model is called."""
        known, name = metadata or {}, (serialized or {}).get("name") or "a chat model"
        model = ModelName(known.get("ls_model_name") or name, known.get("ls_provider"))
        self._models[run_id] = model

    def on_llm_end(self, response: LLMResult, *, run_id: Any, **_: Any) -> None:
        """Count a call."""
        model = self._models.pop(run_id, ModelName("", None))
        agent, part = spender(records=True)
        for generation in (one for several in response.generations for one in several):
            message = generation.message if isinstance(generation, ChatGeneration) else None
            if not isinstance(message, AIMessage):
                continue
            used = message.usage_metadata
            line: dict[str, Any] = {"agent": agent, "part": part, "model": model.name}
            line |= dict.fromkeys(COUNTED, 0) | {"calls": 1, "usd": 0.0}
            if used is not None:
                line["input_tokens"] = used["input_tokens"]
                line["output_tokens"] = used["output_tokens"]
                details = used.get("input_token_details") or {}
                line["cached_tokens"] = details.get("cache_read") or 0
                metadata = message.response_metadata
                line["usd"] = self._prices.cost_of_response(metadata, model, used)
            with self._lock:
                self._counted.append(line)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        """Forget a call that failed."""
        self._models.pop(run_id, None)

    def added_to(self, known: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What was counted, with what was known before."""
        with self._lock:
            return total([*known, *self._counted])


def total(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Usage in one line for each part and model, the most tokens first."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in lines:
        known = found.setdefault(
            tuple(line[name] for name in _NAMED),
            {**{name: line[name] for name in _NAMED}, **dict.fromkeys(COUNTED, 0)},
        )
        for name in COUNTED:
            known[name] += line[name]
    return sorted(
        found.values(), key=lambda one: one["input_tokens"] + one["output_tokens"], reverse=True
    )


def spender(*, records: bool) -> tuple[str, str]:
    """The agent and its part that spend now.

    Args:
        records: Whether a callback handler asks, which also counts the calls of layers.
    """
    config = current_config()
    metadata = config.get("metadata", {})
    agent = metadata.get("lc_agent_name") or metadata.get(AGENT_KEY, "")
    node = metadata.get("langgraph_node", "")
    part = node.rpartition(".")[0] or node
    # Layers run with this tag, and what they are around without it.
    if records and part == node and TAG_NOSTREAM in (config.get("tags") or ()):
        part = calling_layer.get().rpartition(".")[0] or "middleware"
    return agent, part


def current_config() -> RunnableConfig:
    """The config of the run that is under way; empty outside of one."""
    try:
        return get_config()
    except RuntimeError:
        return {}
