"""Instructor, on OpenAI's client."""

from __future__ import annotations

from typing import Any

import instructor
from checks import run
from openai import OpenAI
from places import BY_JSON, BY_TOOL, SERVER, Place


def form(mode: instructor.Mode, text: str) -> Any:
    client: Any = instructor.from_openai(OpenAI(**SERVER), mode=mode)
    messages = [{"role": "user", "content": text}]
    options: Any = {"model": "page", "response_model": Place, "max_retries": 0}
    return lambda: client.create(messages=messages, **options).city


run(
    structured_output_by_a_tool=(form(instructor.Mode.TOOLS, BY_TOOL), "Oslo"),
    structured_output_by_json_mode=(form(instructor.Mode.JSON, BY_JSON), "Oslo"),
    structured_output_by_json_schema=(form(instructor.Mode.JSON_SCHEMA, BY_JSON), "Oslo"),
)
