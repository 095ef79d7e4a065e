"""ChatOpenAI of langchain-openai, as it is, against the chat completions of a service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from serve.agents import chat_service, wait_for_threads

from agent_factory import create_agent
from agent_factory.middleware import ClientToolsMiddleware
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from samples import Answer
from servers import served


@tool
def title() -> str:
    """Title of the page."""
    return "Orders"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with chat_service(f"sqlite:///{tmp_path_factory.mktemp('chat_openai')}/desk.db") as made:
        yield made


@pytest.fixture(scope="module")
def model_of(service: Service) -> Iterator[Any]:
    """Makes a model of an agent of the service."""
    # On this machine, so without a proxy.
    with served(service) as url, httpx.Client(trust_env=False) as here:
        options = {"base_url": f"{url}/v1", "api_key": "none", "http_client": here}
        yield partial(ChatOpenAI, **options, max_retries=0)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_model_with_tools(model_of: Any, service: Service, streaming: bool) -> None:
    before = service.threads.count()
    model = model_of(model="page", streaming=streaming).bind_tools([title])
    # In the second message, the agent also calls a tool that the server runs.
    for text, result in (("title", "title=Orders"), ("pay title", "pay=Paid 5., title=Orders")):
        talk: list[Any] = [HumanMessage(text)]
        answer = model.invoke(talk)
        (call,) = answer.tool_calls
        assert (call["name"], call["args"]) == ("title", {})
        talk += [answer, title.invoke(call)]
        assert isinstance(talk[-1], ToolMessage)
        assert model.invoke(talk).text == f"Done: {result}"
    wait_for_threads(service, before)


def test_an_agent_of_langgraph_has_an_agent_of_a_service_as_its_model(model_of: Any) -> None:
    agent = create_agent(model_of(model="page"), [title])
    result = agent.invoke({"messages": "pay title"})
    assert result["messages"][-1].text == "Done: pay=Paid 5., title=Orders"


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_a_structured_answer(model_of: Any, service: Service, method: Any) -> None:
    before, name = service.threads.count(), uuid4().hex
    tool_name = "json_object" if method == "json_mode" else "Answer"
    script = ScriptedChatModel([[{"name": tool_name, "args": {"number": 3}, "id": "1"}]])
    layers = [ClientToolsMiddleware()]
    service.add(name, create_agent(script, middleware=layers, checkpointer=InMemorySaver()))
    model = model_of(model=name).with_structured_output(Answer, method=method)
    assert model.invoke("Where?") == Answer(number=3)
    wait_for_threads(service, before)
