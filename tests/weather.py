"""Structured answers and a tool about the weather."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Weather(BaseModel):
    degrees: int = Field(le=60)


class News(BaseModel):
    headline: str


def look(city: str) -> str:
    """Look at the weather of a city."""
    return f"18 degrees in {city}"
