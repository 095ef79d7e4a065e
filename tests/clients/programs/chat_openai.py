"""OpenAI's client for Python."""

from __future__ import annotations

import json
from typing import Any

from checks import run
from openai import APIStatusError, OpenAI
from places import BY_JSON, CALL, CALLED, OSLO, SERVER, TOOL, Place, weather

client = OpenAI(**SERVER)


def ask(text: str, agent: str = "page", **options: Any) -> Any:
    messages: Any = [{"role": "user", "content": text}]
    return client.chat.completions.create(model=agent, messages=messages, **options)


def answer(*arguments: Any, **options: Any) -> Any:
    return ask(*arguments, **options).choices[0].message.content


def chat() -> Any:
    whole = ask("Hi", "desk")
    choice = whole.choices[0]
    return choice.message.content, choice.finish_reason, whole.usage.total_tokens


def stream() -> Any:
    chunks = list(ask("Hi you", stream=True, stream_options={"include_usage": True}))
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    return "".join(pieces), chunks[-1].usage.total_tokens


def tools() -> Any:
    message = ask(CALL, tools=[TOOL]).choices[0].message
    (call,) = message.tool_calls
    content = weather(**json.loads(call.function.arguments))
    result = {"role": "tool", "tool_call_id": call.id, "content": content}
    messages = [{"role": "user", "content": CALL}, message, result]
    whole = client.chat.completions.create(model="page", messages=messages, tools=[TOOL])
    return whole.choices[0].message.content


def json_of_the_model() -> Any:
    schema = {"name": "place", "schema": Place.model_json_schema(), "strict": True}
    forms = ({"type": "json_object"}, {"type": "json_schema", "json_schema": schema})
    return [Place.model_validate_json(answer(BY_JSON, response_format=form)) for form in forms]


def statuses() -> Any:
    codes = []
    for text, agent in (("fail", "desk"), ("Hi", "nobody")):
        try:
            ask(text, agent)
        except APIStatusError as error:
            codes.append(error.status_code)
    return codes


def thread() -> Any:
    headers = {"X-Thread-Id": "bench-thread"}
    return [answer(text, "desk", extra_headers=headers) for text in ("One", "Two")]


run(
    chat=(chat, ("You said: Hi", "stop", 17)),
    stream=(stream, ("You said: Hi you", 17)),
    models=(lambda: {model.id for model in client.models.list()}, {"desk", "ids", "outer", "page"}),
    tools_of_the_client=(tools, CALLED),
    json_of_the_model=(json_of_the_model, [OSLO, OSLO]),
    stop_words=(lambda: bool(answer("Hi you", stop=["you"])), True),
    errors=(statuses, [424, 404]),
    link_to_a_review=(lambda: "/inbox/" in answer('call pay {"euros": 5}', "desk"), True),
    thread=(thread, ["You said: One", "You said: Two"]),
    responses_api=(
        lambda: client.responses.create(model="desk", input="Hi").output_text,
        "You said: Hi",
    ),
)
