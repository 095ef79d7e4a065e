"""Endpoint of AG-UI: a request is a run, and the answer a stream of events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
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
from agent_factory.providers import ending_of
from agent_factory.serve.ag_ui.events import Events
from agent_factory.serve.ag_ui.interrupts import to_decision, to_interrupt
from agent_factory.serve.ag_ui.messages import (
    answer_before,
    asked_again,
    call_results,
    cut_of,
    id_of,
    is_empty,
    new_messages,
)
from agent_factory.serve.body import choice, read_body
from agent_factory.serve.client_tools import (
    client_settings,
    digest_of,
    is_client_call,
    result_decisions,
)
from agent_factory.serve.exchange import (
    ENDED,
    Exchange,
    Outcome,
    check_agent,
    last_answer,
    tokens_of,
)
from agent_factory.serve.json_response import failure_of, to_json
from agent_factory.serve.pages.waits import schema_of
from agent_factory.service import Busy, Service, ThreadBusy, can_be_steered

_TOOL_PARTS = {"name", "description", "parameters"}

_RUN_ID = "ag_ui_run_id"
"""Key in the metadata of a run: the client's id of the run."""


async def run_agent(service: Service, request: Request) -> EventSourceResponse:
    """`POST /ag-ui/{agent}`."""
    agent = request.path_params["agent"]
    check_agent(service, agent)
    comes_back = choice(request, "on_disconnect", "cancel", "continue") == "continue"
    whole = choice(request, "messages", "new", "all") == "all"
    busy = choice(request, "busy", *get_args(Busy))
    if busy == "steer" and not can_be_steered(service.agents[agent]):
        raise HTTPException(
            422,
            f"busy is 'steer', and agent {agent!r} reads no messages while it runs, since it has "
            "no SteeringMiddleware. Leave it out, or send another one.",
        )
    body = await read_body(request, RunAgentInput)
    exchange = Exchange(service, request, agent, body.thread_id, "ag-ui")
    answer = _Answer(exchange, body)
    await run_in_threadpool(answer.go_back, whole, comes_back)
    await run_in_threadpool(answer.begin, cast("Busy | None", busy))

    async def stop(_: object) -> None:
        if not comes_back:
            await exchange.cancel()

    async def events() -> AsyncIterator[dict[str, str]]:
        async for event in answer.events():
            # Aliases are the names in camel case of AG-UI's JSON.
            yield {"data": event.model_dump_json(by_alias=True)}

    # Clients take "\n" for the end of a line, and no other.
    return EventSourceResponse(events(), sep="\n", client_close_handler_callable=stop)


@dataclass
class _Answer:
    """Answer to one request, as events of AG-UI."""

    exchange: Exchange
    body: RunAgentInput
    results: list[types.Message] = field(default_factory=list)
    """Results of calls in this request."""
    new: list[BaseMessage] = field(default_factory=list)
    """Messages of this request."""

    def go_back(self, whole: bool, comes_back: bool) -> None:
        """Leave the thread where the client has cut or edited the conversation.

        Args:
            comes_back: Whether a client that was cut off may want the answer that is there.
        """
        body, exchange = self.body, self.exchange
        info = exchange.before.info
        if not exchange.before.messages or body.resume or info is None:
            return
        last = None if info.run is None else exchange.service.run(info.run).info  # None of a copy
        status = "done" if last is None else last.status
        # Else the client has lost the stream of a run: see `Exchange.repeat`.
        has_seen = not comes_back and not (last and last.metadata.get(_RUN_ID) == body.run_id)
        edited, again = has_seen and status in ENDED, has_seen and status == "done"
        messages, stored = body.messages, exchange.before.messages
        # A page shows an earlier version of an answer, which the thread has left.
        answer = answer_before(messages)
        if answer and answer not in map(id_of, stored) and exchange.return_to(answer):
            return
        flags = {"whole": whole, "edited": edited, "again": again}
        if (cut := cut_of(messages, stored, self._as_stored, **flags)) is not None:
            exchange.go_back(cut)

    def _as_stored(self, message: types.Message) -> str:
        """The text of a message as guards of the agent leave it."""
        messages = new_messages([message], ())
        admit = getattr(self.exchange.service.agents[self.exchange.agent], "admit", None)
        if admit is not None:
            messages = admit({"messages": messages})[0]["messages"]
        return str(messages[-1].text)

    def begin(self, busy: Busy | None) -> None:
        """Submit new messages, and carry out the answers to interrupts."""
        body, exchange = self.body, self.exchange
        before, graph = exchange.before, exchange.service.agents[exchange.agent]
        tools = [tool.model_dump(include=_TOOL_PARTS) for tool in body.tools or ()]
        settings = client_settings(graph, exchange.agent, tools)
        props = body.forwarded_props
        if props is not None and not isinstance(props, Mapping):
            raise HTTPException(422, f"forwardedProps must be an object, got {props!r:.100}.")
        self.new = new = new_messages(body.messages, before.messages)
        decisions = result_decisions(before.waits, call_results(body.messages, before.messages))
        call_ids = {wait.call_id for wait in before.waits if wait.id in decisions}
        self.results = [
            message
            for message in body.messages
            if isinstance(message, types.ToolMessage) and message.tool_call_id in call_ids
        ]
        answers = {**decisions, **self._decisions()}
        others = [wait for wait in before.waits if wait.id not in answers]
        if new and others and (answers or not all(map(is_client_call, others))):
            raise ThreadBusy(
                f"thread {body.thread_id!r}",
                "waits for an answer to its interrupts and calls, so the message was not taken.",
                "Send resume, with an entry for each interrupt, and a result for each call.",
            )
        if answers:
            now = None if body.tools is None else settings
            exchange.decide(answers, settings=now, stream=self._modes)
            if not new:
                return
        if not body.messages and (before.info is None or before.info.run is None):
            return  # a page reads a thread that has not begun
        context = [entry.model_dump() for entry in body.context or ()]
        configurable = {**({"ag_ui_context": context} if context else {}), **settings}
        options: dict[str, Any] = {
            "busy": "queue" if exchange.runs else busy,  # behind the run of the answer
            # A user who writes on does not wait for calls of the page.
            "waiting": "interrupt" if others else None,
            "stream": self._modes,
            "context": props if props and graph.get_context_jsonschema() else None,
            "config": {"configurable": configurable} if configurable else None,
            "metadata": {**digest_of(settings), _RUN_ID: body.run_id},
        }
        if new:
            inputs = {"messages": new, **self._changes()}
            # A message that is sent again elsewhere in the thread is another run.
            message_id = str(new[-1].id) if exchange.fork is None else body.run_id
            run = exchange.send(inputs, message_id=message_id, **options)
            if run.status in ENDED and run.info.metadata.get(_RUN_ID) != body.run_id:
                # An earlier run, whose message the thread has not, or has left.
                exchange.runs.remove(run)
                run = exchange.send(inputs, message_id=body.run_id, **options)
        else:
            # A client without its stream wants no other attempt.
            position = asked_again(body.messages, before.messages)
            run = exchange.repeat(None if position is None else body.run_id, **options)
        # As guards of the agent left them.
        stored = {message.id: message for message in run.messages}
        self.new = [stored.get(message.id, message) for message in new]
        # An earlier run; a worker may be faster than this line.
        if len(exchange.runs) == 1 and before.info and before.info.run == run.id:
            exchange.used_before = tokens_of([run])

    @property
    def _keys(self) -> list[str]:
        """The keys of the output of the agent, without messages."""
        channels = self.exchange.service.agents[self.exchange.agent].output_channels
        return [] if isinstance(channels, str) else [key for key in channels if key != "messages"]

    @property
    def _modes(self) -> set[str]:
        """Stream modes to record."""
        changes = {*self._keys} - {"structured_response"}  # which is there at the end
        return {"messages", "custom", "values"} if changes else {"messages", "custom"}

    def _changes(self) -> dict[str, object]:
        """Changes of the client to the state, as far as the agent takes them as input."""
        state, before = self.body.state, self.exchange.before
        if not isinstance(state, Mapping):
            return {}
        agent = self.exchange.service.agents[self.exchange.agent]
        takes = agent.get_input_jsonschema().get("properties", {})
        return {
            key: value
            for key, value in state.items()
            if key in takes and key in self._keys
            # As JSON: the form that the client has.
            if to_json(value) != to_json(before.values.get(key))
        }

    def _decisions(self) -> dict[str, Any]:
        """The answers to interrupts, as decisions by the ids of the waits."""
        decisions = {}
        inbox = self.exchange.service.inbox(self.exchange.principal.tenant)
        for entry in self.body.resume or ():
            wait = inbox.get(entry.interrupt_id)
            if wait.thread_id != self.body.thread_id:
                text = f"There is no interrupt {entry.interrupt_id!r} in this thread."
                raise HTTPException(404, text)
            decisions[wait.id] = to_decision(wait, entry)
        return decisions

    async def events(self) -> AsyncIterator[ag.BaseEvent]:
        """The events of the answer."""
        body, exchange = self.body, self.exchange
        ids: Any = {"thread_id": body.thread_id, "run_id": body.run_id}
        yield ag.RunStartedEvent(
            **ids, protocol_version=PROTOCOL_VERSION, parent_run_id=body.parent_run_id
        )
        before: Any = {**exchange.before.values}
        before["messages"] = [*exchange.before.messages, *self.new]
        has = {message.id for message in body.messages}
        stored_ids = {id_of(message) for message in before["messages"] if not is_empty(message)}
        events = Events(has | stored_ids, body.state, self._keys)
        # A client with a state gets changes.
        if not body.state:
            for event in events.state(before):
                yield event
        if not stored_ids <= has:
            yield events.messages(before)
        try:
            async for part in exchange.follow():
                for event in events.of(part):
                    yield event
        except AgentFactoryError as error:
            exchange.outcome = Outcome("failed", f"{type(error).__name__}: {error}")
        for event in events.close():
            yield event
        after, usage = await run_in_threadpool(lambda: (exchange.now(), self._usage()))
        outcome = exchange.outcome
        assert outcome is not None  # `follow` has returned
        if outcome.status == "failed":
            failure = failure_of(outcome.error)
            text, code = failure["message"] or outcome.error, failure["error"]
            yield ag.RunErrorEvent(message=text, code=code, usage=usage)
            return
        for event in events.state(after.values):
            yield event
        # As long as other calls wait, the thread lacks the new results.
        stored_ids = {id_of(message) for message in after.messages}
        yield events.messages(after.values, [m for m in self.results if m.id not in stored_ids])
        if outcome.status == "done" and (ending := ending_of(last_answer(after.messages))):
            yield ag.CustomEvent(name="ending", value={"kind": ending.kind, "text": ending.text})
        end = await run_in_threadpool(self._outcome, outcome, after.messages)
        yield ag.RunFinishedEvent(**ids, outcome=end, usage=usage)

    def _outcome(self, outcome: Outcome, messages: Sequence[BaseMessage]) -> ag.RunFinishedOutcome:
        if outcome.status == "cancelled":
            return ag.RunFinishedCancelledOutcome()
        calls = {
            str(call["id"])
            for message in messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        }
        interrupts = [
            to_interrupt(wait, calls, schema_of(self.exchange.service, wait)[0])
            for wait in outcome.reviews
        ]
        if interrupts:
            return ag.RunFinishedInterruptOutcome(interrupts=interrupts)
        # The client runs the calls that wait, and sends results with the next request.
        return ag.RunFinishedSuccessOutcome()

    def _usage(self) -> list[TokenUsage] | None:
        """Tokens of the model calls of this request."""
        tokens = self.exchange.used()
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
