"""OpenAI's Agents SDK, with an agent of ours as its model."""

from __future__ import annotations

from typing import Any

import agents
from checks import run
from openai import AsyncOpenAI
from places import BY_JSON, CALL, CALLED, OSLO, SERVER, Place, weather

agents.set_tracing_disabled(True)


async def answer(text: str, kind: Any = agents.OpenAIChatCompletionsModel, **options: Any) -> Any:
    model = kind("page", AsyncOpenAI(**SERVER))
    agent: Any = agents.Agent(name="bench", model=model, **options)
    return (await agents.Runner.run(agent, text)).final_output


tool = agents.function_tool(weather)
run(
    chat=(lambda: answer("Hi"), "You said: Hi"),
    tools_of_the_client=(lambda: answer(CALL, tools=[tool]), CALLED),
    structured_output_by_json_schema=(lambda: answer(BY_JSON, output_type=Place), OSLO),
    responses_api=(lambda: answer("Hi", agents.OpenAIResponsesModel), "You said: Hi"),
)
