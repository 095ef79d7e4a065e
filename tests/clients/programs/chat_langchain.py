"""LangChain's chat model for OpenAI."""

from __future__ import annotations

from typing import Any

from checks import run
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from places import BY_JSON, BY_TOOL, CALL, CALLED, OSLO, SERVER, Place, weather

model = ChatOpenAI(model="page", **SERVER)


def tools() -> Any:
    question, bound = HumanMessage(CALL), model.bind_tools([weather])
    message = bound.invoke([question])
    (call,) = message.tool_calls
    result = ToolMessage(weather(**call["args"]), tool_call_id=call["id"])
    return bound.invoke([question, message, result]).text


def form(method: Any, text: str) -> Any:
    return lambda: model.with_structured_output(Place, method=method).invoke(text)


responses = ChatOpenAI(model="page", use_responses_api=True, **SERVER)
run(
    chat=(lambda: model.invoke("Hi").text, "You said: Hi"),
    stream=(lambda: "".join(chunk.text for chunk in model.stream("Hi you")), "You said: Hi you"),
    tools_of_the_client=(tools, CALLED),
    structured_output_by_a_tool=(form("function_calling", BY_TOOL), OSLO),
    structured_output_by_json_mode=(form("json_mode", BY_JSON), OSLO),
    structured_output_by_json_schema=(form("json_schema", BY_JSON), OSLO),
    responses_api=(lambda: responses.invoke("Hi").text, "You said: Hi"),
)
