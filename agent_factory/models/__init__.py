"""Chat models behind wrappers, bindings, configurable fields and fallbacks."""

from __future__ import annotations

from operator import is_
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBinding
from langchain_core.runnables.config import ensure_config, merge_configs

from agent_factory.upstream import ModelWrapper, initialized_chat_model


def configured(model: Any, config: RunnableConfig | None = None) -> Any:
    """The model behind a configurable model in this run; another model unchanged.

    Args:
        model: A chat model, perhaps with bound arguments.
        config: Config of the call. None: the config of the current node; outside of a run, the
            result is the default model.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> from langchain_core.runnables import ConfigurableField
    >>> model = FakeListChatModel(responses=["hi"])
    >>> slow = model.configurable_fields(sleep=ConfigurableField(id="seconds"))
    >>> configured(slow, {"configurable": {"seconds": 2}}).sleep
    2.0
    >>> configured(slow) is configured(model) is model
    True
    """
    if isinstance(model, BaseChatModel) or not isinstance(model, Runnable):  # nearly always
        return model
    if isinstance(model, RunnableBinding):
        inner = configured(model.bound, merge_configs(ensure_config(config), model.config))
        return model if inner is model.bound else model.model_copy(update={"bound": inner})
    # Imported only for models with a need: these modules take some milliseconds.
    from langchain_core.runnables.configurable import DynamicRunnable
    from langchain_core.runnables.fallbacks import RunnableWithFallbacks

    if isinstance(model, RunnableWithFallbacks):
        runnables = list(model.runnables)
        first, *others = [configured(runnable, config) for runnable in runnables]
        if all(map(is_, (first, *others), runnables)):
            return model
        return model.model_copy(update={"runnable": first, "fallbacks": others})
    if not isinstance(model, DynamicRunnable):
        return initialized_chat_model(model, config)
    # In core alone, a config bound to the model replaces all keys of the run's config.
    chosen, chosen_config = model.prepare(merge_configs(ensure_config(config), model.config))
    if type(chosen) is type(model.default):
        # A model with other fields is a new object, for which pydantic copies lists and dicts.
        # Items, such as the requests of a fake, belong in the lists and dicts of the default.
        for name, value in vars(model.default).items():
            if isinstance(value, list | dict) and vars(chosen).get(name) == value:
                vars(chosen)[name] = value
    # An alternative may have bindings, or be configurable by a class of langchain.
    chosen = configured(chosen, chosen_config)
    # `with_config` of a configurable model keeps tags and the like in the model.
    return chosen.with_config(model.config) if model.config else chosen


def unbound(model: Any) -> Any:
    """The model named by the user: inside of bindings and wrappers, as this run configures it."""
    model = configured(model)
    while isinstance(model, RunnableBinding | ModelWrapper):
        model = model.inner if isinstance(model, ModelWrapper) else model.bound
    return model


def chat_models_of(model: Any) -> list[Any]:
    """The chat models of which any answers: the model inside its bindings, and its fallbacks."""
    model = unbound(model)
    # `with_fallbacks`, by its public fields: importing the class takes some milliseconds.
    runnables = () if isinstance(model, BaseChatModel) else getattr(model, "runnables", ())
    chat_models = [inner for runnable in runnables for inner in chat_models_of(runnable)]
    return chat_models or [model]


def bound_tools(model: Any) -> list[Any]:
    """Tools bound to a model, in the form for its provider."""
    if isinstance(model, ModelWrapper):
        return bound_tools(model.inner)
    if not isinstance(model, RunnableBinding):
        return []
    return [*(model.kwargs.get("tools") or ()), *bound_tools(model.bound)]


def model_name(model: Any) -> str | None:
    """The name of a chat model at its provider; None without a name."""
    names = (getattr(model, key, None) for key in ("model_name", "model", "model_id"))
    return next((name for name in names if isinstance(name, str) and name), None)
