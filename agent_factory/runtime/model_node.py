"""The node of the model: a valid history in, the call with all layers, one update out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime, get_runtime

from agent_factory.decisions.recorder import DecisionRecorder
from agent_factory.runtime.composition import ModelCall, Outcome, disable_streaming
from agent_factory.runtime.response_reader import ResponseReader, retry_count
from agent_factory.runtime.routing import Rules, State, ended_by_tools
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.tools_node import pending_exit
from agent_factory.state.history import Repair, ValidatedPrefix, call_ids, repair
from agent_factory.state.schema import RETRIES
from agent_factory.state.updates import Fold
from agent_factory.structured_output.strategies import is_explanation
from agent_factory.topology.model import MODEL, Call
from agent_factory.types import ModelRequest, ModelResponse

Update = Any
"""What a node may return to LangGraph: a dict, a Command, a list of both, or None."""


class ModelNode(Runnable[Any, Any]):
    """The model with all layers around it.

    Args:
        spec: The agent.
        sync: The composed call for synchronous runs.
        a: The composed call for asynchronous runs.
        fold: Makes one update of the node's own and those of the layers.
        rules: What routing knows of the agent.
        watch: Records what it decides, or None.
    """

    def __init__(
        self,
        spec: AgentSpec,
        sync: ModelCall,
        a: ModelCall,
        fold: Fold,
        rules: Rules,
        recorder: DecisionRecorder | None = None,
    ) -> None:
        self.name = spec.topology.style.model
        self._spec = spec
        self._sync = sync
        self._a = a
        self._fold = fold
        self._rules = rules
        self._reader = ResponseReader(spec)
        self._offered = spec.toolbox.offered
        self._layered = bool(spec.layers_around(Call.MODEL))
        self._seen = ValidatedPrefix()
        self._watch = recorder
        self._repair: Callable[..., Repair | None] = repair
        self._passed_on: Callable[[State, Rules], Any] = pending_exit
        if recorder is not None:
            self._repair = recorder.repairing(repair)
            self._passed_on = recorder.passing("", MODEL, pending_exit, ended_by_tools)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Ask the model in a synchronous run."""
        if passed := self._passed_on(input, self._rules):
            return passed
        runtime = get_runtime()
        state, history_update = self._repair_history(input, runtime)
        if self._layered:
            disable_streaming(config)
        outcome = self._sync(self._request(state, runtime))
        return self._finish(state, history_update, outcome, runtime)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Ask the model in an asynchronous run."""
        if passed := self._passed_on(input, self._rules):
            return passed
        runtime = get_runtime()
        state, history_update = self._repair_history(input, runtime)
        if self._layered:
            disable_streaming(config)
        outcome = await self._a(self._request(state, runtime))
        return self._finish(state, history_update, outcome, runtime)

    def _repair_history(self, state: State, runtime: Runtime[Any]) -> tuple[State, list[Any]]:
        """The state with a valid history, and what to write so that the thread has it too."""
        if not self._spec.repairs_history:
            return state, []
        messages: list[AnyMessage] = state["messages"]
        mended = self._repair(messages, self._seen.of(runtime.control, messages))
        if mended is not None:
            messages = mended.messages
            state = {**state, "messages": messages}
        self._seen.remember(runtime.control, messages)
        return state, mended.update if mended else []

    def _request(self, state: State, runtime: Runtime[Any]) -> ModelRequest[Any]:
        spec = self._spec
        return ModelRequest(
            model=spec.model,
            messages=state.get("messages", []),
            system_message=spec.system_message,
            tools=list(self._offered),
            response_format=spec.response_format,
            state=state,  # type: ignore[arg-type]  # the merged schema extends AgentState
            runtime=runtime,
        )

    def _finish(
        self, state: State, history_update: list[Any], outcome: Outcome, runtime: Runtime[Any]
    ) -> Update:
        failures = retry_count(state)
        response = outcome.response
        if self._layered:
            response = self._reader.finish(response, failures)
        update: dict[str, Any] = {"messages": [*history_update, *response.result]}
        update |= self._structured(state, response)
        if any(map(is_explanation, response.result)):
            update[RETRIES] = failures + 1
            if self._watch is not None:
                self._watch.explained(failures + 1)
        if not any(isinstance(m, AIMessage) and call_ids(m) for m in response.result):
            self._seen.forget(runtime.control)
        if not outcome.commands:
            return update
        return self._fold(update, outcome.commands)

    def _structured(self, state: State, response: ModelResponse[Any]) -> dict[str, Any]:
        """The answer of this call, also where there is none: an earlier one must not stay."""
        value = response.structured_response
        stale = state.get("structured_response") is not None
        if value is None and not stale and self._spec.response_format is None:
            return {}
        return {"structured_response": value}
