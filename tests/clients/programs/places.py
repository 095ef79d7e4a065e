"""What the clients of OpenAI's API ask for: a place, by a tool or as JSON."""

from __future__ import annotations

from typing import Any

from checks import URL
from pydantic import BaseModel

SERVER: Any = {"base_url": f"{URL}/v1", "api_key": "none", "max_retries": 0}
BY_TOOL, BY_JSON = 'call Place {"city": "Oslo"}', 'say {"city": "Oslo"}'
CALL, CALLED = 'call weather {"city": "Oslo"}', "Done: Sun in Oslo."


class Place(BaseModel):
    """A place."""

    city: str


OSLO = Place(city="Oslo")


def weather(city: str) -> str:
    """Weather of a city."""
    return f"Sun in {city}."


FUNCTION: Any = {"name": "weather", "parameters": Place.model_json_schema()}
TOOL: Any = {"type": "function", "function": FUNCTION}
