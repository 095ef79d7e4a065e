"""A subagent as a tool of another agent."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Send
from pydantic import BaseModel, Field, TypeAdapter, create_model
from typing_extensions import TypedDict

from agent_factory.errors import ArgumentError, TurnError, describe
from agent_factory.hooks.flows import Flow, Invoke, forms_of
from agent_factory.providers import text_of

RESUMED_THREAD: Final = "agent_factory_resumed_thread"
"""Key of `configurable`: the thread of a call that is made again. Its subagent goes on with it."""


class SubagentRequest(BaseModel):
    """Arguments of a tool that is an agent."""

    request: str = Field(description="What to do, with everything that is needed to do it.")


class SubagentTool(StructuredTool):
    """Tool of an agent."""

    agent: Any = Field(None, exclude=True, repr=False)
    """The compiled agent, whose tools, guards and limits an outer plan shows."""

    max_requests: int = Field(1, exclude=True, repr=False)
    """The most requests of one call."""


def agent_tool(
    agent: object, *, name: str | None = None, description: str, max_requests: int | None = None
) -> BaseTool:
    """Make a subagent a tool: the request is its message, and the final answer is the result.

    An interrupt inside of the subagent, such as a review, pauses the thread of the outer agent. The
    answer goes there, with `Command(resume=...)` or `agent_factory.review`, and the subagent goes
    on where it was. Each call is a separate conversation, also among parallel calls.

    With `max_requests`, a call may have several requests. They run at once, up to
    `max_concurrency` of the config, each in a separate conversation. A failed request costs
    only itself: the error stands in place of its result. If all fail, the call has failed.

    Args:
        agent: A compiled agent. No checkpointer is needed: the thread of the outer agent keeps the
            state, so `ignore=["AF211"]` is right for a subagent with reviews.
        name: The name of the tool; default: the name of the agent.
        description: Text about the tool for the outer model.
        max_requests: The most requests of a call. The tool then has the argument `requests`, a
            list.

    Returns:
        A tool with the argument `request`. The result is the text of the subagent's last message,
        or the structured response as JSON; with `max_requests`, the results of all requests in
        order, each under a heading. The metadata of the subagent's run has its name, or the name of
        the tool, as `lc_agent_name`.

    Raises:
        ArgumentError: An argument has the wrong type, or neither the tool nor the agent has a name.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> clerk = create_agent(ScriptedChatModel(["It is paid."]), name="clerk")
    >>> tool = agent_tool(clerk, description="Pays bills.")
    >>> model = ScriptedChatModel([[{"name": "clerk", "args": {"request": "Pay!"}}], "Done."])
    >>> agent = create_agent(model, [tool])
    >>> agent.invoke({"messages": "Pay the bill."})["messages"][2].text
    'It is paid.'
    >>> clerk = create_agent(ScriptedChatModel(["It is paid."] * 2), name="clerk")
    >>> tool = agent_tool(clerk, description="Pays bills.", max_requests=20)
    >>> print(tool.invoke({"requests": ["Pay A.", "Pay B."]}))
    Request 1 of 2:
    It is paid.
    <BLANKLINE>
    Request 2 of 2:
    It is paid.
    """
    if not isinstance(agent, Pregel):
        reason = f"must be a compiled agent, got {describe(agent)}."
        raise ArgumentError("agent", reason, "Pass what create_agent returned.")
    own_name = agent.name if agent.name != "LangGraph" else None  # LangGraph's default
    if name is None and own_name is None:
        reason = "is required: the agent has no name."
        raise ArgumentError("name", reason, "Pass name='clerk', or name the agent.")
    name = own_name if name is None else name
    for argument, value in (("name", name), ("description", description)):
        if not isinstance(value, str) or not value.strip():
            reason = f"must be a non-empty string, got {describe(value)}."
            raise ArgumentError(argument, reason, f"Pass {argument}='...'.")
    # In Python, True is an int.
    if max_requests is not None and (type(max_requests) is not int or max_requests < 1):
        reason = f"must be a positive number of requests, got {describe(max_requests)}."
        raise ArgumentError("max_requests", reason, "Pass max_requests=20, or leave it out.")

    subagent = _Subagent(agent, str(name), own_name or str(name))
    answer: Callable[..., Flow[str]] = subagent.answer
    arguments: type[BaseModel] = SubagentRequest
    if max_requests is not None:
        answer = _SubagentBatch(subagent).answer
        text = "What to do, one by one, each with everything that is needed to do it."
        requests = Field(description=text, min_length=1, max_length=max_requests)
        arguments = create_model("SubagentRequests", requests=(list[str], requests))

    call, acall = forms_of(answer)
    return SubagentTool(
        name=str(name),
        description=description,
        args_schema=arguments,
        func=call,
        coroutine=acall,
        agent=agent,
        max_requests=max_requests or 1,
    )


@dataclass(frozen=True, slots=True)
class _Subagent:
    """An agent that answers a request.

    Args:
        agent: The compiled agent.
        tool: The name of the tool.
        name: The name of the runs.
    """

    agent: Pregel[Any, Any, Any, Any]
    tool: str
    name: str

    def answer(self, config: RunnableConfig, request: str) -> Flow[str]:
        state = {"messages": [HumanMessage(request)]}
        result = yield from _result(self.agent, state, config, self.name, self.tool)
        if (answer := result.get("structured_response")) is None:
            return text_of(result["messages"][-1])
        # An answer may be a pydantic model, a dataclass or a dict: this writes all of them.
        return TypeAdapter(Any).dump_json(answer).decode()


class _Answer(TypedDict):
    """The answer to a request of several."""

    place: int
    text: str
    is_error: bool


class _Place(TypedDict):
    """A request, and its position in the list."""

    place: int
    request: str


class _Batch(TypedDict):
    requests: list[str]
    # With places, and not a dict by them: savers may turn the keys of a dict into text.
    answers: Annotated[list[_Answer], operator.add]


class _SubagentBatch:
    """An agent that answers several requests at once, in a graph with a task for each.

    LangGraph names the checkpoints of a task by its position, so each request goes on where it
    was, whichever request waits for a person.
    """

    def __init__(self, subagent: _Subagent) -> None:
        self._subagent = subagent

        def sends(state: _Batch) -> list[Send]:
            places = enumerate(state["requests"])
            return [Send("ask", _Place(place=place, request=request)) for place, request in places]

        graph = StateGraph(_Batch)
        node = RunnableLambda(*forms_of(self._attempt), name="ask")
        graph.add_node("ask", node, input_schema=_Place)
        graph.add_conditional_edges(START, sends, ["ask"])
        # In a run of an outer agent, LangGraph takes the outer saver for both.
        self._graph = graph.compile(checkpointer=subagent.agent.checkpointer, name=subagent.tool)

    def answer(self, config: RunnableConfig, requests: list[str]) -> Flow[str]:
        state, tool = {"requests": requests, "answers": []}, self._subagent.tool
        result = yield from _result(self._graph, state, config, tool, tool)
        # A handoff is a command to the graph of this call, which has no such node. LangGraph skips
        # the command, and the task has no answer.
        by_place = {answer["place"]: answer for answer in result["answers"]}
        answers = [by_place.get(place, _HANDED_OVER) for place in range(len(requests))]
        if all(answer["is_error"] for answer in answers):
            reason = f"failed for each request. The first: {answers[0]['text']}"
            raise TurnError(tool, reason, "Pass handle_tool_errors=True.")
        return "\n\n".join(
            f"Request {number} of {len(answers)}{' failed' if answer['is_error'] else ''}:\n"
            f"{answer['text']}"
            for number, answer in enumerate(answers, 1)
        )

    def _attempt(self, send: _Place, config: RunnableConfig) -> Flow[dict[str, Any]]:
        is_error = False
        try:
            text = yield from self._subagent.answer(config, send["request"])
        # Interrupts and handoffs are exceptions as well, but they close a flow unseen by
        # the flow.
        except Exception as error:
            text, is_error = f"{type(error).__name__}: {error}", True
        return {"answers": [_Answer(place=send["place"], text=text, is_error=is_error)]}


_HANDED_OVER = _Answer(
    place=-1, text="It handed over to another agent, which one of several cannot.", is_error=True
)


def _result(
    graph: Any, state: dict[str, Any], config: RunnableConfig, name: str, tool: str
) -> Flow[Any]:
    """The final state of a graph in the call of a tool, in a run with this name."""
    # The projection `subagents` of a stream shows the graphs with this key.
    metadata = {**config.get("metadata", {}), "lc_agent_name": name}
    named: RunnableConfig = {**config, "run_name": name, "metadata": metadata}
    result = yield Invoke(graph, (yield from _input_of(graph, state, config)), named)
    if "__interrupt__" in result:
        raise TurnError(
            tool,
            "was interrupted, and no outer agent can keep its state until it is answered.",
            "Call the tool in an agent with a checkpointer.",
        )
    return result


def _input_of(graph: Any, state: dict[str, Any], config: RunnableConfig) -> Flow[Any]:
    """The input of a graph: None if it continues the thread of a repeated call."""
    keys, saver = config.get("configurable", {}), graph.checkpointer
    # A graph inside of another graph has the same thread, and LangGraph resumes it by itself.
    is_outer = RESUMED_THREAD in keys and not keys.get("checkpoint_ns")
    if not is_outer or keys[RESUMED_THREAD] != keys.get("thread_id"):
        return state
    if not isinstance(saver, BaseCheckpointSaver):
        return state
    # Functions of a position: it would pass the config by name to a method with such a name.
    read = RunnableLambda(
        lambda place: saver.get_tuple(place), lambda place: saver.aget_tuple(place)
    )
    return state if (yield Invoke(read, config)) is None else None
