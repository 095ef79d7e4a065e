"""Usage: tokens and costs of the model calls of a run, by the part that made the calls."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from operator import itemgetter
from threading import Lock
from typing import Any, Literal

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp
from sqlalchemy import Row

from agent_factory.middleware.budget import ModelName, Prices
from agent_factory.runtime import calling_layer
from agent_factory.service.jobs import AGENT_KEY
from agent_factory.service.steps import Step, error_text, step_of_decision, steps_text
from agent_factory.upstream import current_config

COUNTS = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd")
"""Counts of each part of an agent."""

_labels_of = itemgetter("agent", "part", "model")


class UsageHandler(BaseCallbackHandler):
    """Callback handler that counts the model calls of a run, and notes its steps with their times.

    All chunks of an answer get one id, and their metadata the class of the model. A call that
    reports no tokens counts as a call. Prices come from genai-prices, if installed; an unknown
    price counts as 0.
    """

    # Handlers of an async run otherwise run in a thread, where the part is not known.
    run_inline = True

    def __init__(self) -> None:
        self._lock = Lock()
        self._prices = Prices(None, needed=False)
        self._begun: dict[object, tuple[ModelName, float, str]] = {}
        self._ids: dict[object, str | None] = {}  # of answers, by the call
        self._lines: list[dict[str, object]] = []
        self._steps: list[Step] = []

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: object, *, run_id: object, **facts: Any
    ) -> None:
        """Remember which model is called, and when."""
        details, name = facts.get("metadata") or {}, (serialized or {}).get("name")
        details["ls_model_class"] = name  # LangGraph's handler shows the metadata with each chunk
        # LangChain's models name themselves in the metadata for tracers.
        name = details.get("ls_model_name") or name or "a chat model"
        self._begun[run_id] = ModelName(name, details.get("ls_provider")), time.time(), ""

    def on_llm_new_token(self, token: object, *, run_id: object, **facts: Any) -> None:
        """Name a chunk as the first of its answer, since langchain-core names its last chunk."""
        if (message := getattr(facts.get("chunk"), "message", None)) is not None:
            message.id = self._ids.setdefault(run_id, message.id)

    def on_llm_end(self, response: LLMResult, *, run_id: object, **_: object) -> None:
        """Count a call."""
        model = self._begun.get(run_id, (ModelName("", None),))[0]
        agent, part = spender(records=True)
        # One call may have several generations, with the tokens of each.
        lines = []
        for generation in (choice for choices in response.generations for choice in choices):
            message = generation.message if isinstance(generation, ChatGeneration) else None
            if not isinstance(message, AIMessage):
                continue
            tokens = message.usage_metadata
            line: dict[str, Any] = {"agent": agent, "part": part, "model": model.name}
            line |= dict.fromkeys(COUNTS, 0) | {"calls": 1, "usd": 0.0}
            if tokens is not None:
                line["input_tokens"] = tokens["input_tokens"]
                line["output_tokens"] = tokens["output_tokens"]
                details = tokens.get("input_token_details") or {}
                line["cached_tokens"] = details.get("cache_read") or 0
                metadata = message.response_metadata
                line["usd"] = self._prices.cost_of_response(metadata, model, tokens)
            lines.append(line)
        with self._lock:
            self._lines += lines
        amounts = ("input_tokens", "output_tokens", "usd")
        self._end("model", run_id, **{name: sum(line[name] for line in lines) for name in amounts})

    def on_llm_error(self, error: BaseException, *, run_id: object, **_: object) -> None:
        """Note a failed call, which is not counted."""
        self._end("model", run_id, error=error_text(error))

    def on_tool_start(
        self, serialized: dict[str, Any], input_str: str, *, run_id: object, **facts: Any
    ) -> None:
        """Remember which tool is called, and when."""
        name = ModelName((serialized or {}).get("name") or "a tool", None)
        self._begun[run_id] = name, time.time(), facts.get("tool_call_id") or ""

    def on_tool_end(self, output: Any, *, run_id: object, **_: object) -> None:
        """Note a call of a tool."""
        is_error = isinstance(output, ToolMessage) and output.status == "error"
        self._end("tool", run_id, error=str(output.text) if is_error else "")

    def on_tool_error(self, error: BaseException, *, run_id: object, **_: object) -> None:
        """Note a call of a tool that raised. An interrupt is not an error: the tool asks."""
        if isinstance(error, GraphBubbleUp):
            self._end("tool", run_id, detail="asked, and waits for the answer")
        else:
            self._end("tool", run_id, error=error_text(error))

    def add_decision(self, data: object) -> None:
        """Note a decision from the custom stream, if a timeline shows it."""
        if (step := step_of_decision(data)) is not None:
            with self._lock:
                self._steps.append(step)

    def columns_of(self, run: Row[Any]) -> dict[str, object]:
        """Columns of a run's row, with what this job has added."""
        with self._lock:
            steps = sorted(self._steps, key=lambda step: step.at)
            lines = total([*run.usage, *self._lines])
        return {"usage": lines, "steps": steps_text(run.steps, steps)}

    def _end(self, kind: Literal["model", "tool"], run_id: object, **values: Any) -> None:
        # Another handler may have swallowed the start.
        if (begun := self._begun.pop(run_id, None)) is None:
            return
        (agent, part), (name, at, call_id) = spender(records=True), begun
        seconds = time.time() - at
        step = Step(
            kind=kind, name=name.name, at=at, seconds=seconds, agent=agent, part=part,
            call_id=call_id, **values,
        )  # fmt: skip
        with self._lock:
            self._steps.append(step)


def total(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Usage in one line for each part and model, the most tokens first."""
    totals: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in lines:
        sums = totals.setdefault(_labels_of(line), {**line, **dict.fromkeys(COUNTS, 0)})
        for name in COUNTS:
            sums[name] += line[name]
    return sorted(totals.values(), key=lambda sums: -sums["input_tokens"] - sums["output_tokens"])


def spender(*, records: bool) -> tuple[str, str]:
    """The agent and its part that spend now; `records` for a handler, which sees layers."""
    config = current_config.get() or {}
    metadata = config.get("metadata", {})
    agent = metadata.get("lc_agent_name") or metadata.get(AGENT_KEY, "")
    node = metadata.get("langgraph_node", "")
    part = node.rpartition(".")[0] or node
    # Layers run with this tag, and the wrapped call without the tag.
    if records and part == node and TAG_NOSTREAM in (config.get("tags") or ()):
        part = calling_layer.get().rpartition(".")[0] or "middleware"
    return agent, part
