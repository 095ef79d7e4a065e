"""LiteLLM, as a client of OpenAI's API."""

from __future__ import annotations

import json
from typing import Any

import litellm
from checks import run
from places import BY_JSON, CALL, SERVER, TOOL


def ask(text: str, **options: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    return litellm.completion("openai/page", messages, **SERVER, **options)


def answer(text: str, **options: Any) -> Any:
    return ask(text, **options).choices[0].message.content


def stream() -> Any:
    return "".join(chunk.choices[0].delta.content or "" for chunk in ask("Hi you", stream=True))


def tools() -> Any:
    (call,) = ask(CALL, tools=[TOOL]).choices[0].message.tool_calls
    return json.loads(call.function.arguments)


def json_of_the_model() -> Any:
    return json.loads(answer(BY_JSON, response_format={"type": "json_object"}))


run(
    chat=(lambda: answer("Hi"), "You said: Hi"),
    stream=(stream, "You said: Hi you"),
    tools_of_the_client=(tools, {"city": "Oslo"}),
    json_of_the_model=(json_of_the_model, {"city": "Oslo"}),
)
