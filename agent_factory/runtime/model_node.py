"""Model node: repairs the history, calls the model through all layers, returns one update."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBinding
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command

from agent_factory.counts import COUNTS, astore_counts, store_counts
from agent_factory.decisions.prefix.tracker import SentRequest
from agent_factory.decisions.recorder import Recorder
from agent_factory.errors import (
    BadReturn,
    HistoryError,
    ModelCannotCallTools,
    OutputError,
    StructuredOutputError,
    UnknownTool,
    describe,
)
from agent_factory.hooks.streams import StreamedModel
from agent_factory.models import bound_tools, chat_models_of, configured, model_name, unbound
from agent_factory.providers import ending_of
from agent_factory.providers.endings import with_own_calls
from agent_factory.providers.requests import model_for, provider_of, settings_for, valid_messages
from agent_factory.providers.thoughts import (
    Conversation,
    preserves_thoughts,
    with_valid_thoughts,
)
from agent_factory.runtime.attempts import Attempts, attempts_in
from agent_factory.runtime.composition import (
    ModelCall,
    ModelOutcome,
    compose_layers,
    compose_model_call,
    disable_streaming,
    first_without_mode,
    raise_unsupported,
    streaming_enabled,
)
from agent_factory.runtime.error_notes import add_notes
from agent_factory.runtime.guards import Guards
from agent_factory.runtime.hook_node import StateCopies
from agent_factory.runtime.limits import ENDED_KWARGS, REFUSAL_KWARGS, why_to_end
from agent_factory.runtime.lost_writes import watched_call
from agent_factory.runtime.recursion_limit import RecursionLimit
from agent_factory.runtime.routing import State, ended_by_tools, why_not_taken
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.step import RUN, Run, Successors
from agent_factory.runtime.tools_node import pending_exit
from agent_factory.state.history import (
    ValidatedPrefix,
    answers_of,
    call_ids,
    error_result,
    is_explanation,
    last_turn,
    no_repair,
    repair,
    with_valid_calls,
    without_records,
)
from agent_factory.state.schema import ANSWER, RETRIES
from agent_factory.state.updates import UpdateMerger
from agent_factory.structured_output.strategies import (
    EXPLANATION_KWARGS,
    ProviderStrategy,
    Strategy,
    ToolStrategy,
    strategy_for,
)
from agent_factory.tools.registry import Toolbox, offered_names
from agent_factory.tools.schemas import offered
from agent_factory.topology.model import MODEL, TOOLS, AgentStyle
from agent_factory.types import ModelRequest, ModelResponse, check_request
from agent_factory.upstream import (
    SCRATCHPAD,
    ModelWrapper,
    construct_prompt,
    run_identity,
    step_and_stop,
)

Turn = tuple[State, Runtime[Any], list[Any]]
"""The state with a valid history, the runtime, and the messages that made the history valid."""

_attempts: ContextVar[Attempts | None] = ContextVar("attempts", default=None)
"""Attempts of the current model call with layers, if somebody reads the tokens."""

MOST_PAUSES = 8
"""How many times in a row a provider may pause an answer: the bound of the Ruby library RubyLLM."""

_NOT_ASKED = object()  # the answer of a call before the model is called

_HAVE_RULES: WeakKeyDictionary[type, bool] = WeakKeyDictionary()
"""For each class of chat models, whether the provider has rules for messages."""

_CHAT_MODEL_CALLS = (BaseChatModel.invoke, BaseChatModel.ainvoke)
_id_of = attrgetter("id")


class ModelNode(Runnable[Any, Any]):
    """Node that calls the model through all layers."""

    streams = True
    needs_thread = False
    has_trace_policy = False

    def __init__(
        self,
        spec: AgentSpec,
        channels: Mapping[str, Any],
        recorder: Recorder,
        copies: StateCopies,
        context_schema: type[Any] | None,
        successors: Callable[[], Mapping[str, Successors]],
        guards: Guards | None = None,
    ) -> None:
        self.name = spec.topology.style.model
        nodes = spec.topology.nodes
        # A step for each node: no path to an answer is longer. create_react_agent has another rule.
        has_loop = spec.topology.style is AgentStyle.CREATE_AGENT and TOOLS in nodes
        self._most_steps = 2 * len(nodes) if has_loop else 0
        self._successors = successors
        self._spec = spec
        self._channels = channels
        self._recorder = recorder
        self._copies = copies
        self._guards = guards
        self._context_schema = context_schema
        self._layers = spec.model_layers
        self._offered_tools = spec.toolbox.offered
        self._repair = recorder.repairing(repair if spec.repairs_history else no_repair)
        self._refuse = recorder.refusing(refusal_of, MODEL, "not offered")
        exits = pending_exit if guards is None else guards.around(pending_exit)
        self._pending_exit = recorder.pending_exit("", MODEL, exits, ended_by_tools)
        self._call: ModelCall = self._ask
        self._acall: ModelCall = self._ask_async
        self._reader = ResponseReader(spec)
        if self._layers:
            self._call = self._composed(asynchronous=False)
            self._acall = self._composed(asynchronous=True)
            if spec.strict:
                self._call, self._acall = watched_call(self._call), watched_call(self._acall)

    def _composed(self, *, asynchronous: bool) -> ModelCall:
        if missing := first_without_mode(self._layers, asynchronous=asynchronous):
            return partial(raise_unsupported, missing, asynchronous=asynchronous)
        innermost = self._ask_async if asynchronous else self._ask
        return compose_layers(
            self._layers,
            asynchronous,
            self._recorder,
            lambda layers: compose_model_call(layers, innermost),
        )

    # Many agents are built and never run, so the first run makes the parts for runs.

    @cached_property
    def _models(self) -> _BoundModels:
        # A tool layer may run tools that were unknown when the agent was built.
        return _BoundModels(self._spec.toolbox, runs_others=bool(self._spec.tool_layers))

    @cached_property
    def _limit(self) -> RecursionLimit:
        return RecursionLimit(self._spec, self._recorder, self._successors)

    @cached_property
    def _prefix(self) -> ValidatedPrefix:
        return ValidatedPrefix()

    @cached_property
    def _merge(self) -> UpdateMerger:
        return UpdateMerger(self._channels)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        if update := self._pending_exit(input, self._spec.rules):
            return update
        if self._guards is not None:
            self._guards.raise_refusal(config)
        request, turn = self._begin(input, config)
        try:
            outcome = self._ended(turn) or self._call(request)
        except Exception as error:
            add_notes(error, self._context_schema)
            store_counts(config)
            raise
        update = self._finish(*turn, outcome, config or {})
        return update if self._guards is None else self._guards.result(update)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        if update := self._pending_exit(input, self._spec.rules):
            return update
        if self._guards is not None:
            self._guards.raise_refusal(config)
        request, turn = self._begin(input, config)
        try:
            outcome = self._ended(turn) or await self._acall(request)
        except Exception as error:
            add_notes(error, self._context_schema)
            await astore_counts(config)
            raise
        update = self._finish(*turn, outcome, config or {})
        return update if self._guards is None else self._guards.result(update)

    def _begin(self, state: State, config: RunnableConfig | None) -> tuple[ModelRequest[Any], Turn]:
        """Return a request with a valid history, and more values for `_finish`."""
        spec, runtime = self._spec, get_runtime()
        history_update: list[Any] = []
        graph_state = state
        if spec.repairs_history:
            messages: list[AnyMessage] = state["messages"]
            run = run_identity(runtime)
            if (
                valid_history := self._repair(messages, self._prefix.of(run, messages))
            ) is not None:
                messages, history_update = valid_history.messages, valid_history.update
                state = {**state, "messages": messages}
            if state.get(ANSWER) is not None:  # the entry of the loop has not taken the answer
                refused = {m.id: m for m in _refused(messages, state[ANSWER]["call"])}
                history_update = [*history_update, *refused.values()]
                messages = [refused.get(m.id, m) for m in messages]
                state = {**state, "messages": messages}
            self._prefix.remember(run, messages)
        layer_state = state
        if self._layers:
            COUNTS.set({})
            # Before the layers, in whose context nothing streams.
            _attempts.set(attempts_in(config, runtime.stream_writer))
            disable_streaming(config)
            layer_state = self._copies.copy(state)
        request: ModelRequest[Any] = ModelRequest(
            model=spec.model,
            messages=layer_state.get("messages", []),
            system_message=spec.system_message,
            # A copy: a layer may change the list in place, and the next call offers all tools
            # again.
            tools=list(self._offered_tools),
            response_format=spec.response_format,
            state=layer_state,  # type: ignore[arg-type]  # the merged schema extends AgentState
            runtime=runtime,
        )
        if self._recorder.enabled:
            before = request.messages if graph_state is state else graph_state["messages"]
            self._recorder.begins(before, request, len(self._layers))
        return request, (state, runtime, history_update)

    def _ended(self, turn: Turn) -> ModelOutcome | None:
        """Return a message in place of an answer if the last turns brought only errors."""
        messages = turn[0].get("messages") or [None]
        # First, because the message rarely is an error, and the search through turns takes longer.
        if getattr(messages[-1], "status", None) != "error" or not self._spec.repairs_history:
            return None
        if (why := why_to_end(messages, self._spec.rules.known)) is None:
            return None
        self._recorder.ended(why)
        message = AIMessage(
            f"The run ended: {why}.", name=self._spec.name, additional_kwargs=ENDED_KWARGS
        )
        return ModelOutcome(ModelResponse([message]))

    def _ask(self, request: ModelRequest[Any]) -> ModelOutcome:
        """Call the model inside all layers."""
        call = self._prepare(request)
        # Only layers disable streaming, so without any there is nothing to enable.
        with streaming_enabled() if self._layers else nullcontext():
            while (prompt := call.prompt()) is not None:
                call.answer = call.model.invoke(prompt, **call.settings)
        return self._answered(request, call)

    async def _ask_async(self, request: ModelRequest[Any]) -> ModelOutcome:
        call = self._prepare(request)
        with streaming_enabled() if self._layers else nullcontext():
            while (prompt := call.prompt()) is not None:
                call.answer = await call.model.ainvoke(prompt, **call.settings)
        return self._answered(request, call)

    def _answered(self, request: ModelRequest[Any], call: _Call) -> ModelOutcome:
        answer = call.answer
        if call.sent_request is not None:
            self._recorder.answered(call.sent_request, answer)
        if call.conversation is not None:
            answer = call.conversation.stamped(answer)
        # The cache of a model keeps ids: the answer would take the place of an earlier message.
        known = map(_id_of, request.state.get("messages") or ())
        if isinstance(answer, AIMessage) and answer.id in known:
            answer = answer.model_copy(update={"id": None})
        retries: Any = request.state.get(RETRIES) or 0
        response = self._reader.read(call.strategy, answer, retries)
        if call.paused:
            response = replace(response, result=[*call.paused, *response.result])
        # Without layers, each request offers all tools.
        if not self._layers or not (refusals := self._refusals(request, response)):
            return ModelOutcome(response, strategy=call.strategy)
        response = replace(response, result=[*response.result, *refusals])
        return ModelOutcome(response, refusals=refusals, strategy=call.strategy)

    def _refusals(
        self, request: ModelRequest[Any], response: ModelResponse[Any]
    ) -> tuple[ToolMessage, ...]:
        """Return answers to the calls of known tools that a request did not offer."""
        message: Any = next(m for m in reversed(response.result) if isinstance(m, AIMessage))
        calls = [call for call in message.tool_calls if call["name"] in self._spec.rules.known]
        if not calls or not self._spec.repairs_history:  # calls are answered elsewhere
            return ()
        tools = _tools_of(request, configured(request.model))
        # A chain of a layer may have tools inside that cannot be found.
        is_known = request.model is self._spec.model
        if not (tools or is_known or isinstance(unbound(request.model), BaseChatModel)):
            return ()
        names = set(offered_names(tools))
        if not (others := [call for call in calls if call["name"] not in names]):
            return ()
        tool_names = dict.fromkeys(next(offered_names([tool]), "") for tool in tools)
        tool_list = ", ".join(filter(None, tool_names)) or "none"
        return tuple(self._refuse(call, tool_list) for call in others)

    def _prepare(self, request: ModelRequest[Any]) -> _Call:
        """Return the call: the model with its tools, the valid messages, the record for the log."""
        model, response_format = request.model, request.response_format
        if not isinstance(model, BaseChatModel):  # rarely true
            model = configured(model)
        strategy: Strategy = None
        if response_format is not None:
            with_tools = bool(_tools_of(request, model))
            strategy = strategy_for(response_format, model, with_tools=with_tools)
        model = self._models.bind(request, model, strategy)
        if self._layers and (attempts := _attempts.get()) is not None:
            model = attempts.watch(model)
        messages = request.messages
        # The node has repaired the state's own list; a list made by a layer is checked here.
        if messages is not request.state.get("messages") and (
            valid_history := self._repair(messages)
        ):
            messages = valid_history.messages
        sent_request = None
        if self._recorder.enabled:
            sent_request = self._recorder.asks(request, strategy, messages)
        if request.system_message is None and not messages:
            raise HistoryError(
                "messages",
                "must not be empty for an agent without a system prompt.",
                "Pass a message to the run, or `system_prompt` to create_agent.",
            )
        return _Call(model, request.system_message, messages, strategy, sent_request)

    def _finish(
        self,
        state: State,
        runtime: Runtime[Any],
        history_update: list[Any],
        outcome: ModelOutcome,
        config: RunnableConfig,
    ) -> Any:
        retries = int(state.get(RETRIES) or 0)
        response = outcome.response
        if self._layers:
            response = self._reader.finish(outcome, retries)
            if (attempts := _attempts.get()) is not None:
                attempts.end(response.result)
        waiting = None
        if response.structured_response is not None:
            response, waiting = self._reader.settled(response, outcome.strategy)
        # Inline, because nearly always many steps are left.
        step, stop = step_and_stop(config["configurable"][SCRATCHPAD])
        run: Run | None = config["configurable"].get(RUN)
        left = stop - step - (run.skipped_steps if run else 0)
        if left < self._most_steps:
            limit = config["recursion_limit"]
            response = self._limit.applied(response, left, limit, fused=run is not None)
        messages = map(without_records, response.result)
        update: dict[str, Any] = {"messages": [*history_update, *messages]}
        if self._layers and (counts := COUNTS.get()):
            update |= counts
        answer, stale = response.structured_response, state.get("structured_response")
        # None is written too: the answer of an earlier call must not stay.
        if answer is not None or stale is not None or self._spec.response_format is not None:
            update["structured_response"] = answer
        if waiting is not None or state.get(ANSWER) is not None:
            update[ANSWER] = waiting
        if any(map(is_explanation, response.result)):
            update[RETRIES] = retries + 1
            self._recorder.explained(retries + 1)
        answers = [m for m in response.result if isinstance(m, AIMessage)]
        if not any(answer.tool_calls or answer.invalid_tool_calls for answer in answers):
            # The run is likely over, and the attempts would keep its messages in memory.
            self._prefix.forget(run_identity(runtime))
        merged = self._merge(update, outcome.commands) if outcome.commands else update
        if isinstance(merged, Command) or self._spec.topology.style is not AgentStyle.CREATE_AGENT:
            return merged
        # Front ends (ag-ui-langgraph 0.0) show a returned dict as the whole state.
        return [Command(update=merged)]


def _tools_of(request: ModelRequest[Any], model: object) -> list[Any]:
    """Return the tools of a request: its own, the tools of its settings, and tools of its model.

    A layer may replace the model by a model with bound tools.
    """
    return [*request.tools, *(request.model_settings.get("tools") or ()), *bound_tools(model)]


def refusal_of(call: ToolCall, tool_list: str) -> ToolMessage:
    """Return the answer to a call of a tool that the request did not offer."""
    text = f"Error: the tool {call['name']} was not offered in this request, so this call did not "
    text += f"run. Offered: {tool_list}."
    return error_result(call, text, additional_kwargs=REFUSAL_KWARGS)


@dataclass(slots=True)
class _Call:
    """Call of the model inside all layers: the only place from which a request leaves."""

    model: Any
    system: SystemMessage | None
    messages: Sequence[Any]
    strategy: Strategy
    sent_request: SentRequest | None
    paused: list[AIMessage] = field(default_factory=list)
    conversation: Conversation | None = None  # for models that bind their thoughts to it
    settings: dict[str, Any] = field(default_factory=dict)
    answer: Any = _NOT_ASKED

    def prompt(self) -> Any:
        """Return the input of the model, valid by the rules of the provider; None at the end."""
        # Answers of tests, and of many local models, have no metadata.
        asked = self.answer is not _NOT_ASKED
        if asked and (not getattr(self.answer, "response_metadata", None) or self._ends()):
            return None
        messages: Any = [*self.messages, *self.paused] if self.paused else self.messages
        inner = self.model
        while isinstance(inner, RunnableBinding):
            inner = inner.bound
        # A layer may add dicts and tuples. For other lists the conversion only costs time.
        has_messages = all(issubclass(kind, BaseMessage) for kind in set(map(type, messages)))
        kind, provider = type(inner), None
        if _HAVE_RULES.get(kind, True):
            provider = provider_of(inner)
            # Of wrappers and fallbacks, each object may be for another provider.
            if isinstance(inner, BaseChatModel) and not isinstance(inner, ModelWrapper):
                _HAVE_RULES[kind] = provider is not None
            keeps = any(map(preserves_thoughts, map(model_name, chat_models_of(inner))))
            if provider is not None or (keeps and not isinstance(inner, BaseChatModel)):
                messages, has_messages = convert_to_messages(messages), True
                if keeps:
                    tools = map(bound_tools, [self.model, *getattr(inner, "runnables", ())])
                    messages, self.conversation = with_valid_thoughts(messages, tools, self.system)
                messages = valid_messages(provider, messages)
        if self.system is not None:
            messages = [self.system, *messages]
        if provider is not None:
            self.settings = settings_for(provider, self.model, messages)
            self.model = model_for(provider, self.model, messages)
        # A runnable or an overridden method may expect a list.
        is_chat_model = isinstance(inner, BaseChatModel)
        if is_chat_model and has_messages and (kind.invoke, kind.ainvoke) == _CHAT_MODEL_CALLS:
            return construct_prompt(messages=messages)
        return messages

    def _ends(self) -> bool:
        """Return False if the provider has paused the answer, and goes on in another request."""
        ending = ending_of(self.answer)
        if ending is None or ending.kind != "paused" or len(self.paused) == MOST_PAUSES:
            return True
        conversation = self.conversation
        self.paused.append(conversation.stamped(self.answer) if conversation else self.answer)
        return False


class _BoundModels:
    """Cache of models bound to tools, because binding converts each tool to a schema."""

    SIZE = 16
    """Number of bound models to keep: enough for a few models and tool sets in turn."""

    def __init__(self, toolbox: Toolbox, *, runs_others: bool) -> None:
        self._toolbox = toolbox
        self._runs_others = runs_others  # whether a layer may run tools that the agent lacks
        # By identity: models and tools need not be hashable. An entry keeps both alive, so that no
        # id is used again.
        self._bound: OrderedDict[Any, tuple[Sequence[Any], Any]] = OrderedDict()

    def bind(self, request: ModelRequest[Any], model: Any, strategy: Strategy) -> Any:
        """Return the request's model, as configured, with tools, tool choice and settings."""
        # Layers make a new model of this kind for each call, which the cache would never have. The
        # wrapped model is the same in all calls, and its flow needs no tools.
        if isinstance(model, StreamedModel):
            return model.around(self.bind(request, model.inner, strategy))
        own: Any = request.model
        while isinstance(own, StreamedModel):
            own = own.inner
        parts, choice = (model, strategy, *request.tools), request.tool_choice
        # Settings and a tool choice as a dict have no hash, and a configurable model makes a new
        # object for each call, so these models are bound each time.
        has_no_key = request.model_settings or not isinstance(choice, str | None)
        if has_no_key or model is not own:
            return self._bind(request, model, strategy)
        key = *map(id, parts), choice
        if (entry := self._bound.get(key)) is None:
            entry = self._bound[key] = parts, self._bind(request, model, strategy)
            if len(self._bound) > self.SIZE:
                self._bound.popitem(last=False)
        return entry[1]

    def _bind(self, request: ModelRequest[Any], model: Any, strategy: Strategy) -> Any:
        check_request(model, request.tools, self._toolbox.offered)
        tools, choice = [*map(offered, request.tools)], request.tool_choice
        settings = {**request.model_settings}
        for tool in tools:
            if self._runs_others or isinstance(tool, dict):
                continue  # a layer or the provider may run the tool
            name = str(
                getattr(tool, "name", None) or getattr(tool, "__name__", type(tool).__name__)
            )
            if name not in self._toolbox.client:
                raise UnknownTool(
                    name,
                    "is offered to the model, but nothing in this agent can run it.",
                    "Pass it to create_agent, or run it in a wrap_tool_call layer.",
                )
        if isinstance(strategy, ToolStrategy):
            tools += [binding.tool for binding in strategy.bindings.values()]
        elif isinstance(strategy, ProviderStrategy):
            settings = {**strategy.to_model_kwargs(), **settings}
        if not tools:
            return model.bind(**settings) if settings else model
        names = set(offered_names(tools))
        for tool in [*(settings.pop("tools", None) or ()), *bound_tools(model)]:
            if next(offered_names([tool]), None) not in names:
                tools.append(tool)
        if choice is not None:
            settings["tool_choice"] = choice
        try:
            # A chat model without tools has the method of BaseChatModel, which raises this error.
            # Other runnables have no method.
            if not hasattr(model, "bind_tools"):
                raise NotImplementedError
            return _with_tools(model, tools, settings)
        except NotImplementedError as error:
            raise ModelCannotCallTools(
                type(unbound(model)).__name__,
                "has no bind_tools, so it cannot call tools.",
                "Use a chat model that supports tool calling, or an agent without tools.",
            ) from error


def _with_tools(model: Any, tools: list[Any], settings: dict[str, Any]) -> Any:
    if not isinstance(model, RunnableBinding):
        return model.bind_tools(tools, **settings)
    # RunnableBinding forwards bind_tools to the wrapped model, without the bound settings.
    kwargs = {key: value for key, value in model.kwargs.items() if key != "tools"}
    bound = _with_tools(model.bound, tools, {**kwargs, **settings})
    return RunnableBinding(
        bound=bound, config=model.config, config_factories=model.config_factories
    )


class ResponseReader:
    """Reader of a model's answers: structured output, and replies to calls without a node."""

    def __init__(self, spec: AgentSpec) -> None:
        self._name = spec.name
        # Without repairs, the graph around the agent answers the calls.
        self._has_tools = TOOLS in spec.topology.nodes or not spec.repairs_history
        self._runs_cut_calls = spec.run_cut_calls or not spec.repairs_history
        self._spec = spec
        self._format = spec.response_format

    def read(self, strategy: Strategy, answer: Any, retries: int) -> ModelResponse[Any]:
        """Return a model's answer as a response."""
        if not isinstance(answer, AIMessage):
            raise BadReturn(
                "the model",
                f"must return an AIMessage, got {describe(answer)}.",
                "Use a chat model.",
            )
        message = with_valid_calls(answer)
        if message.tool_calls and message.response_metadata and not self._runs_cut_calls:
            message = with_own_calls(message)
        if self._name is not None:
            # A copy: the model may return the same object again, to another agent too.
            message = message.model_copy(update={"name": self._name})
        replies, value = self._replies(strategy, message, retries)
        return ModelResponse(result=[message, *replies], structured_response=value)

    def finish(self, outcome: ModelOutcome, retries: int) -> ModelResponse[Any]:
        """Return the response of an outcome, with the parts that the layers left out.

        A layer may return a new answer, or the message without the replies to its calls.
        """
        response, refusals = outcome.response, outcome.refusals
        message, tail = last_turn(response.result)  # type: ignore[arg-type]  # messages, all
        if message is None:
            raise BadReturn(
                "a wrap_model_call layer",
                "returned a response without an AIMessage.",
                "Return the response of the handler, or a new AIMessage.",
            )
        if (changed := with_valid_calls(message)) is not message:
            result = [changed if m is message else m for m in response.result]
            response, message = replace(response, result=result), changed
        for refusal in refusals:
            # A layer may have put another call with the same id in place of the call.
            call = (refusal.tool_call_id, refusal.name)
            if any((c["id"], c["name"]) == call for c in message.tool_calls) and (
                refusal.tool_call_id not in answers_of(tail)
            ):
                tail = [*tail, refusal]
                response = replace(response, result=[*response.result, refusal])
        # Without a strategy, no layer called the model, or no structured answer was requested.
        strategy = outcome.strategy or strategy_for(
            self._format, configured(self._spec.model), with_tools=bool(self._spec.toolbox.offered)
        )
        if strategy is None and self._has_tools:
            return response  # the tools node answers every call
        pending_ids = set(call_ids(message)) - answers_of(tail).keys()
        answer = response.structured_response
        if not pending_ids:
            if not isinstance(strategy, ProviderStrategy) or answer is not None:
                return response
            try:
                answer = strategy.binding.parse(message)
            except StructuredOutputError:  # a layer wrote the text, which need not be an answer
                return response
            return replace(response, structured_response=answer)
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        names = {call["name"] for call in calls if call["id"] in pending_ids}
        if self._has_tools and not names & _output_tools(strategy):
            return response
        replies, value = self._replies(strategy, message, retries)
        missing = [
            r for r in replies if isinstance(r, ToolMessage) and r.tool_call_id in pending_ids
        ]
        return replace(
            response,
            result=[*response.result, *missing],
            structured_response=value if answer is None else answer,
        )

    def settled(
        self, response: ModelResponse[Any], strategy: Strategy
    ) -> tuple[ModelResponse[Any], dict[str, Any] | None]:
        """Return a response, and separately an answer next to calls without success so far."""
        message, tail = last_turn(response.result)  # type: ignore[arg-type]  # messages, all
        outputs = self._spec.rules.output | _output_tools(strategy)
        reply = next((m for m in tail if isinstance(m, ToolMessage) and m.name in outputs), None)
        # An answer of a layer, without a call, is final.
        if message is None or reply is None or why_not_taken(message, tail) is None:
            return response, None
        answer = response.structured_response
        waiting = {"call": reply.tool_call_id, "answer": answer, "content": reply.content}
        new_reply = reply.model_copy(update={"content": WAITS})
        result = [new_reply if m is reply else m for m in response.result]
        return replace(response, result=result, structured_response=None), waiting

    def _replies(
        self, strategy: Strategy, message: AIMessage, retries: int
    ) -> tuple[list[BaseMessage], Any]:
        replies, value = strategy.read(message, retries) if strategy else ([], None)
        if value is None and replies and self._format is None and not self._has_tools:
            raise OutputError(
                "a wrap_model_call layer",
                f"requested a structured answer and got none: {replies[0].text}",
                "Pass `response_format` to create_agent, so that the model is asked again.",
                ai_message=message,
            )
        if self._has_tools:
            return replies, value
        # No node answers calls of unknown tools, so they are answered here.
        answered_ids = {reply.tool_call_id for reply in replies if isinstance(reply, ToolMessage)}
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        pending = [call for call in calls if call["id"] not in answered_ids]
        is_answer = value is not None or not replies
        if pending and is_answer and strategy is not None and retries >= strategy.max_retries:
            raise OutputError(
                "the model",
                f"called tools that do not exist (retries: {retries}).",
                "Say in the system prompt that it has no tools.",
                ai_message=message,
                retries=retries,
            )
        names = ", ".join(sorted(_output_tools(strategy)))
        kwargs = {} if strategy is None else EXPLANATION_KWARGS
        for call in pending:
            text = f"Error: {call['name']} is not a valid tool, try one of [{names}]."
            replies = [*replies, error_result(call, text, additional_kwargs=kwargs)]
        return replies, value


WAITS = "This answer is taken if all other calls of the message succeed."
"""Result of the call of an output tool until the results of all other calls are there."""


def _refused(messages: list[AnyMessage], call: str) -> list[ToolMessage]:
    """Return the result of the call of an output tool whose answer waited and was not taken."""
    message, tail = last_turn(messages)
    reply = answers_of(tail).get(call)
    if message is None or reply is None or reply.content != WAITS:
        return []
    why = why_not_taken(message, tail) or "another message came after it"
    text = (
        f"Error: this answer was not taken, because {why}. Give the answer again when it is true."
    )
    return [reply.model_copy(update={"content": text, "status": "error"})]


def _output_tools(strategy: Strategy) -> set[str]:
    return set(strategy.bindings) if isinstance(strategy, ToolStrategy) else set()
