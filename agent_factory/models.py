"""A model given as a string becomes a chat model, where langchain is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from langchain_core.language_models import BaseChatModel

MISSING = (
    "Please install langchain (`pip install langchain`) to use '<provider>:<model>' string "
    "syntax for `model` parameter."
)


def init_model(model: str | BaseChatModel, **settings: Any) -> BaseChatModel:
    """The chat model itself, or the one that "provider:name" names.

    Args:
        model: A chat model (returned as it is), or a string for langchain's `init_chat_model`.
        **settings: Passed on with a string, such as `temperature`.

    Raises:
        ImportError: A string was given and langchain is not installed.
    """
    if not isinstance(model, str):
        return model
    try:
        module = import_module("langchain.chat_models")
    except ImportError as error:
        raise ImportError(MISSING) from error
    return cast("BaseChatModel", module.init_chat_model(model, **settings))
