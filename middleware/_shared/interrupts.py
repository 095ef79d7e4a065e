"""Interrupt a run with a request, and accept only valid answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.types import interrupt
from pydantic import RootModel, create_model


def ask(request: Mapping[str, Any], schema: Any, *, title: str) -> Any:
    """Interrupt with a request, and return the answer; `title` names it in validation errors."""
    # LangGraph stores an answer as soon as `interrupt` returns it. Only an answer that its
    # `response_schema` refuses can be given again, so all validation is part of the schema.
    model: Any = create_model(title, __base__=RootModel[schema])
    return interrupt(request, response_schema=model).root
