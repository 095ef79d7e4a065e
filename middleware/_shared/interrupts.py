"""Interrupt a run with a request, and accept only valid answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from langgraph.types import interrupt
from pydantic import RootModel, TypeAdapter, create_model
from pydantic_core import CoreSchema


@dataclass(frozen=True)
class BuiltOnce:
    """Marks `Any` as a type whose schema pydantic builds once, and not with each request."""

    type: Any

    @cached_property
    def _schema(self) -> CoreSchema:
        return TypeAdapter(self.type).core_schema

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return self._schema


def answer_model(schema: Any, title: str) -> Any:
    """A pydantic model whose `root` is an answer; `title` names it in validation errors."""
    return create_model(title, __base__=RootModel[schema])


def ask(request: Mapping[str, Any], schema: Any, *, title: str) -> Any:
    """Interrupt with a request, and return the answer."""
    # LangGraph stores an answer as soon as `interrupt` returns it. Only an answer that its
    # `response_schema` refuses can be given again, so all validation is part of the schema.
    return interrupt(request, response_schema=answer_model(schema, title)).root
