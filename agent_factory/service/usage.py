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

COUNTS = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd")
"""What is counted of each part of an agent."""

_LABELS = ("agent", "part", "model")


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
        self._models: dict[object, ModelName] = {}
        self._lines: list[dict[str, object]] = []

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: object,
        *,
        run_id: object,
        metadata: dict[str, Any] | None = None,
        **_: object,
    ) -> None:
        """Remember which model is called."""
        details, name = metadata or {}, (serialized or {}).get("name") or "a chat model"
        # LangChain's models name themselves in the metadata for tracers.
        model = ModelName(details.get("ls_model_name") or name, details.get("ls_provider"))
        self._models[run_id] = model

    def on_llm_end(self, response: LLMResult, *, run_id: object, **_: object) -> None:
        """Count a call."""
        model = self._models.pop(run_id, ModelName("", None))
        agent, part = spender(records=True)
        for generation in (choice for choices in response.generations for choice in choices):
            message = generation.message if isinstance(generation, ChatGeneration) else None
            if not isinstance(message, AIMessage):
                continue
            tokens = message.usage_metadata
            line: dict[str, object] = {"agent": agent, "part": part, "model": model.name}
            line |= dict.fromkeys(COUNTS, 0) | {"calls": 1, "usd": 0.0}
            if tokens is not None:
                line["input_tokens"] = tokens["input_tokens"]
                line["output_tokens"] = tokens["output_tokens"]
                details = tokens.get("input_token_details") or {}
                line["cached_tokens"] = details.get("cache_read") or 0
                metadata = message.response_metadata
                line["usd"] = self._prices.cost_of_response(metadata, model, tokens)
            with self._lock:
                self._lines.append(line)

    def on_llm_error(self, error: BaseException, *, run_id: object, **_: object) -> None:
        """Forget a call that failed."""
        self._models.pop(run_id, None)

    def added_to(self, previous: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
        """Return the counts of this run, added to earlier ones."""
        with self._lock:
            return total([*previous, *self._lines])


def total(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Usage in one line for each part and model, the most tokens first."""
    totals: dict[tuple[str, ...], dict[str, object]] = {}
    for line in lines:
        sums = totals.setdefault(
            tuple(line[name] for name in _LABELS),
            {**{name: line[name] for name in _LABELS}, **dict.fromkeys(COUNTS, 0)},
        )
        for name in COUNTS:
            sums[name] += line[name]
    return sorted(
        totals.values(),
        key=lambda entry: entry["input_tokens"] + entry["output_tokens"],
        reverse=True,
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
