"""Pydantic AI, with an agent of ours as its model."""

from __future__ import annotations

from typing import Any

from checks import run
from openai import AsyncOpenAI
from places import BY_JSON, BY_TOOL, CALL, CALLED, OSLO, SERVER, Place, weather
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def answer(text: str, **options: Any) -> Any:
    return (await agent(**options).run(text)).output


def agent(**options: Any) -> Any:
    provider = OpenAIProvider(openai_client=AsyncOpenAI(**SERVER))
    return Agent(OpenAIChatModel("page", provider=provider), **options)


async def stream() -> Any:
    async with agent().run_stream("Hi you") as result:
        return await result.get_output()


run(
    chat=(lambda: answer("Hi"), "You said: Hi"),
    stream=(stream, "You said: Hi you"),
    tools_of_the_client=(lambda: answer(CALL, tools=[weather]), CALLED),
    structured_output_by_a_tool=(
        lambda: answer(BY_TOOL, output_type=ToolOutput(Place, name="Place")),
        OSLO,
    ),
    structured_output_by_the_prompt=(
        lambda: answer(BY_JSON, output_type=PromptedOutput(Place)),
        OSLO,
    ),
    structured_output_by_json_schema=(
        lambda: answer(BY_JSON, output_type=NativeOutput(Place)),
        OSLO,
    ),
)
