"""A subagent as a tool of another agent."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.pregel import Pregel
from pydantic import BaseModel, Field, PrivateAttr, TypeAdapter

from agent_factory.errors import ArgumentError, TurnError, describe
from agent_factory.hooks.flows import then


class SubagentRequest(BaseModel):
    """Arguments of a tool that is an agent."""

    request: str = Field(description="What to do, with everything that is needed to do it.")


class SubagentTool(StructuredTool):
    """A tool that calls an agent."""

    _agent: Any = PrivateAttr(None)

    @property
    def agent(self) -> Any:
        """The compiled agent. The plan of an outer agent shows its tools, guards and limits."""
        return self._agent


def agent_tool(agent: object, *, name: str | None = None, description: str) -> BaseTool:
    """Make a subagent a tool: it gets the request as a message, and its final answer is the result.

    An interrupt inside of the subagent, such as a review, pauses the thread of the outer agent. It
    is answered there, with `Command(resume=...)` or `agent_factory.review`, and the subagent goes
    on where it was. Each call is a separate conversation, also if several run in parallel.

    Args:
        agent: A compiled agent. It needs no checkpointer: the thread of the outer agent keeps its
            state, so `ignore=["AF211"]` is right for a subagent with reviews.
        name: The name of the tool; default: the name of the agent.
        description: What the outer model reads about the tool.

    Returns:
        A tool with the argument `request`. Its result is the text of the subagent's last message,
        or its structured response as JSON. The metadata of the subagent's run has its name, or
        that of the tool, as `lc_agent_name`.

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

    def final_answer(result: Any) -> str:
        if "__interrupt__" in result:
            raise TurnError(
                str(name),
                "was interrupted, and no outer agent can keep its state until it is answered.",
                "Call the tool in an agent with a checkpointer.",
            )
        answer = result.get("structured_response")
        if answer is None:
            return str(result["messages"][-1].text)
        # An answer may be a pydantic model, a dataclass or a dict: this writes all of them.
        return TypeAdapter(Any).dump_json(answer).decode()

    def run(invoke: Any, request: str, config: RunnableConfig) -> Any:
        # The projection `subagents` of a stream shows the graphs that have this key.
        metadata = {**config.get("metadata", {}), "lc_agent_name": own_name or name}
        own_config = {**config, "run_name": own_name or name, "metadata": metadata}
        return then(invoke({"messages": [HumanMessage(request)]}, own_config), final_answer)

    def ask(request: str, config: RunnableConfig) -> object:
        return run(agent.invoke, request, config)

    async def aask(request: str, config: RunnableConfig) -> object:
        return await run(agent.ainvoke, request, config)

    tool = SubagentTool(
        name=str(name),
        description=description,
        args_schema=SubagentRequest,
        func=ask,
        coroutine=aask,
    )
    tool._agent = agent
    return tool
