"""The endpoint of AG-UI: a request is a run, and its answer a stream of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from ag_ui.core import PROTOCOL_VERSION, RunAgentInput, TokenUsage, types
from ag_ui.core import events as ag
from langchain_core.messages import AIMessage, BaseMessage
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.errors import AgentFactoryError
from agent_factory.serve.ag_ui.events import Events
from agent_factory.serve.ag_ui.interrupts import to_decision, to_interrupt
from agent_factory.serve.ag_ui.messages import call_results, id_of, new_messages
from agent_factory.serve.body import read_body
from agent_factory.serve.chat_thread import ChatThread
from agent_factory.serve.client_tools import (
    client_settings,
    digest_of,
    is_client_call,
    result_decisions,
    takes_client_tools,
    with_settings,
)
from agent_factory.serve.json_response import to_json
from agent_factory.serve.pages.waits import schema_of
from agent_factory.serve.principal import Principal
from agent_factory.service import (
    Busy,
    Run,
    RunCancelled,
    Service,
    ThreadBusy,
    Wait,
    can_be_steered,
)
from agent_factory.types import Graph

_TOOL_PARTS = {"name", "description", "parameters"}


async def run_agent(service: Service, request: Request) -> EventSourceResponse:
    """`POST /ag-ui/{agent}`."""
    agent, on_disconnect = request.path_params["agent"], request.query_params.get("on_disconnect")
    if agent not in service.agents:
        names = ", ".join(service.agents)
        raise HTTPException(404, f"There is no agent {agent!r}. There are: {names}.")
    if on_disconnect not in (None, "cancel", "continue"):
        text = f"on_disconnect must be 'cancel' or 'continue', got {on_disconnect!r}."
        raise HTTPException(422, text)
    busy = _busy(request, service.agents[agent], agent)
    body = await read_body(request, RunAgentInput)
    principal, may_decide = request.state.principal, request.state.may_decide
    exchange = _Exchange(service, agent, body, principal, may_decide, busy)
    await run_in_threadpool(exchange.begin)

    async def stop(_: object) -> None:
        if on_disconnect != "continue" and not exchange.has_ended:
            for run in exchange.runs:
                await run.acancel(by=exchange.principal.name)

    async def events() -> AsyncIterator[dict[str, str]]:
        async for event in exchange.events():
            # The aliases are the names in camel case, which AG-UI has in its JSON.
            yield {"data": event.model_dump_json(by_alias=True)}

    # Clients take "\n" for the end of a line, and no other.
    return EventSourceResponse(events(), sep="\n", client_close_handler_callable=stop)


def _busy(request: Request, graph: Graph, agent: str) -> Busy | None:
    """What the request wants to happen if its thread is busy; None if it does not say so."""
    busy: Any = request.query_params.get("busy")
    if busy not in (None, *get_args(Busy)):
        expected = ", ".join(map(repr, get_args(Busy)))
        raise HTTPException(422, f"busy must be one of {expected}, got {busy!r}.")
    if busy == "steer" and not can_be_steered(graph):
        raise HTTPException(
            422,
            f"busy is 'steer', and agent {agent!r} reads no messages while it runs, since it has "
            "no SteeringMiddleware. Leave it out, or send another one.",
        )
    return cast("Busy | None", busy)


@dataclass
class _Exchange:
    """One request, and the runs of the service that answer it."""

    service: Service
    agent: str
    body: RunAgentInput
    principal: Principal
    may_decide: Callable[[Wait], bool] | None
    busy: Busy | None = None
    runs: list[Run] = field(default_factory=list)
    # An answer to an interrupt continues a run, which has used tokens before this request.
    usage_before: Counter[tuple[str, str]] = field(default_factory=Counter)
    has_ended: bool = False
    before: ChatThread = field(init=False)
    # Results of calls that the client has sent with this request.
    results: list[types.Message] = field(default_factory=list)
    new: list[BaseMessage] = field(default_factory=list)

    def begin(self) -> None:
        """Submit what is new, and carry out the answers to interrupts."""
        body, service, graph = self.body, self.service, self.service.agents[self.agent]
        tools = [tool.model_dump(include=_TOOL_PARTS) for tool in body.tools or ()]
        settings = client_settings(graph, self.agent, tools)
        props = body.forwarded_props
        if props is not None and not isinstance(props, Mapping):
            raise HTTPException(422, f"forwardedProps must be an object, got {props!r:.100}.")
        self.before = before = self._read()
        self.new = new = new_messages(body.messages, before.messages)
        waits = before.waits(service)
        results = call_results(body.messages, before.messages)
        decisions = result_decisions(waits, results)
        if decisions and body.tools is not None and takes_client_tools(graph):
            run = service.run(waits[0].run, tenant=self.principal.tenant)
            decisions = with_settings(decisions, settings, run, before.messages)
        call_ids = {wait.call_id for wait in waits if wait.id in decisions}
        self.results = [
            message
            for message in body.messages
            if isinstance(message, types.ToolMessage) and message.tool_call_id in call_ids
        ]
        if body.resume or decisions:
            self.runs.append(self._resume(decisions))
            if not new:
                return
        elif new and not all(map(is_client_call, waits)):
            raise ThreadBusy(
                f"thread {body.thread_id!r}",
                "waits for an answer to its interrupts, so the message was not taken.",
                "Send resume, with an entry for each of them; the message may come with it.",
            )
        context = [entry.model_dump() for entry in body.context or ()]
        configurable = {**({"ag_ui_context": context} if context else {}), **settings}
        takes_context = graph.get_context_jsonschema() is not None
        # A client that has lost a stream sends no new message, and wants no other try.
        asks = bool(body.messages) and body.messages[-1].role == "user"
        run = before.submit(
            service,
            self.agent,
            {"messages": new, **self._changes(before)},
            message_id=str(new[-1].id) if new else body.run_id,
            again=body.run_id if asks else None,
            principal=self.principal,
            busy="queue" if self.runs else self.busy,  # behind what was answered
            # A user who writes on does not wait for what the page has not done.
            waiting="interrupt" if waits and all(map(is_client_call, waits)) else None,
            stream=self._modes,
            context=props if props and takes_context else None,
            config={"configurable": configurable} if configurable else None,
            metadata=digest_of(settings),
        )
        stored = {message.id: message for message in run.messages}  # as guards of the agent let it
        self.new = [stored.get(message.id, message) for message in new]
        if not self.runs and before.info and before.info.run == run.id:  # a worker may be faster
            self.usage_before = _tokens_of([run])
        self.runs.append(run)

    def _read(self) -> ChatThread:
        return ChatThread.read(self.service, self.body.thread_id, self.principal)

    @property
    def _keys(self) -> list[str]:
        """The keys of the state that are shown: the output of the agent, without its messages."""
        channels = self.service.agents[self.agent].output_channels
        return [] if isinstance(channels, str) else [key for key in channels if key != "messages"]

    @property
    def _modes(self) -> set[str]:
        """Stream modes that are recorded for the runs."""
        changes = {*self._keys} - {"structured_response"}  # which is there at the end
        return {"messages", "custom", "values"} if changes else {"messages", "custom"}

    def _changes(self, before: ChatThread) -> dict[str, object]:
        """Changes that the client made to the state, as far as the agent takes them as input."""
        state = self.body.state
        if not isinstance(state, Mapping):
            return {}
        takes = self.service.agents[self.agent].get_input_jsonschema().get("properties", {})
        return {
            key: value
            for key, value in state.items()
            if key in takes and key in self._keys
            # As JSON, in which the client has got it.
            if to_json(value) != to_json(before.values.get(key))
        }

    def _resume(self, results: Mapping[str, object]) -> Run:
        """Decide about what the thread waits for.

        Args:
            results: Results of calls that the client has run, as decisions by the ids of the waits.
        """
        tenant, by = self.principal.tenant, self.principal.name
        inbox = self.service.inbox(tenant, may_decide=self.may_decide)
        decisions: dict[str, Any] = dict(results)
        for entry in self.body.resume or ():
            wait = inbox.get(entry.interrupt_id)
            if wait.thread_id != self.body.thread_id:
                text = f"There is no interrupt {entry.interrupt_id!r} in this thread."
                raise HTTPException(404, text)
            decisions[wait.id] = to_decision(wait, entry)
        # Any of them: a thread waits in one run at a time.
        run = self.service.run(inbox.get(next(iter(decisions))).run, tenant=tenant)
        self.usage_before = _tokens_of([run])
        # An answer without a decision ends the run: see `to_decision`.
        if None in decisions.values():
            run.cancel(by=by)
        else:
            roles = self.principal.roles
            inbox.decide_together(decisions, by=by, roles=roles, stream=self._modes, via="ag-ui")
        return run

    async def events(self) -> AsyncIterator[ag.BaseEvent]:
        """The events of the answer."""
        body = self.body
        ids: Any = {"thread_id": body.thread_id, "run_id": body.run_id}
        yield ag.RunStartedEvent(
            **ids, protocol_version=PROTOCOL_VERSION, parent_run_id=body.parent_run_id
        )
        before = {**self.before.values, "messages": [*self.before.messages, *self.new]}
        has = {message.id for message in body.messages}
        stored_ids = {id_of(message) for message in before["messages"]}
        events = Events(has | stored_ids, body.state, self._keys)
        # A client that has a state gets what changes in it.
        if not body.state:
            for event in events.state(before):
                yield event
        if not stored_ids <= has:
            yield events.messages(before)
        outcome: ag.RunFinishedOutcome | str = ""
        try:
            for run in self.runs:
                outcome = ""
                while not outcome:
                    end: Mapping[str, object] = {}
                    async for part in run.astream():
                        end = part["data"] if part["type"] == "end" else end
                        for event in events.of(part):
                            yield event
                    # It is none if somebody has decided meanwhile, so that the run continues.
                    outcome = await run_in_threadpool(self._outcome, end)
                if not isinstance(outcome, ag.RunFinishedSuccessOutcome):
                    break
        except RunCancelled:
            outcome = ag.RunFinishedCancelledOutcome()
        except AgentFactoryError as error:
            outcome = f"{type(error).__name__}: {error}"
        self.has_ended = True
        for event in events.close():
            yield event
        after, usage = await run_in_threadpool(lambda: (self._read(), self._usage()))
        if isinstance(outcome, str):
            # As the service writes it: the type of the error, and its text.
            name, _, text = outcome.partition(": ")
            yield ag.RunErrorEvent(message=text or name, code=name, usage=usage)
            return
        for event in events.state(after.values):
            yield event
        # As long as other calls wait, the thread does not have the results that have come.
        stored_ids = {id_of(message) for message in after.messages}
        yield events.messages(after.values, [m for m in self.results if m.id not in stored_ids])
        yield ag.RunFinishedEvent(**ids, outcome=outcome, usage=usage)

    def _outcome(self, end: Mapping[str, object]) -> ag.RunFinishedOutcome | str:
        """Return how a run has ended: an error as a string, and "" if it continues."""
        if end["status"] == "failed":
            return str(end["error"])
        if end["status"] == "done":
            return ag.RunFinishedSuccessOutcome()
        now = self._read()
        calls = {
            str(call["id"])
            for message in now.messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        }
        waits = now.waits(self.service)
        interrupts = [
            to_interrupt(wait, calls, schema_of(self.service, wait)[0])
            for wait in waits
            if not is_client_call(wait)
        ]
        if interrupts:
            return ag.RunFinishedInterruptOutcome(interrupts=interrupts)
        # The client runs the calls that wait, and sends their results with its next request.
        return ag.RunFinishedSuccessOutcome() if waits else ""

    def _usage(self) -> list[TokenUsage] | None:
        """Tokens that the model calls of this request have used."""
        tokens = _tokens_of(self.runs)
        tokens.subtract(self.usage_before)
        return [
            TokenUsage(
                model=model,
                input_tokens=tokens[model, "input_tokens"],
                output_tokens=tokens[model, "output_tokens"],
                total_tokens=tokens[model, "input_tokens"] + tokens[model, "output_tokens"],
                cached_input_tokens=tokens[model, "cached_tokens"] or None,
            )
            # Each model is there three times, once for each kind of tokens.
            for model in dict.fromkeys(model for model, _ in tokens)
            if tokens[model, "input_tokens"] + tokens[model, "output_tokens"] > 0
        ] or None


def _tokens_of(runs: Collection[Run]) -> Counter[tuple[str, str]]:
    """The tokens that runs have used, by model and kind."""
    tokens: Counter[tuple[str, str]] = Counter()
    for line in (line for run in runs for line in run.info.usage):
        for name in ("input_tokens", "output_tokens", "cached_tokens"):
            tokens[line["model"], name] += line[name]
    return tokens
