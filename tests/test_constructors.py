"""Arguments in the wrong place or under a wrong name, and names that another package has."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel

import agent_factory
import agent_factory.middleware as built_ins
from agent_factory import AgentMiddleware, create_agent, create_react_agent, plan_agent, with_model
from agent_factory.errors import ArgumentError, SpecError
from agent_factory.middleware import (
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from samples import Plain, add
from tables import each

BUILT_INS = [
    kind
    for kind in (getattr(built_ins, name) for name in built_ins.__all__)
    if isinstance(kind, type) and issubclass(kind, AgentMiddleware) and kind is not AgentMiddleware
]


class Lookup(BaseTool):
    name: str = "lookup"
    description: str = "Look it up."

    def _run(self) -> str:
        return ""


class User(BaseModel):
    name: str = "ada"


@dataclass
class Tenant:
    name: str = "acme"


# Constructors of middleware


@each("kind", BUILT_INS, ids=lambda kind: kind.__name__)
def test_every_built_in_says_which_argument_is_meant(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters.values()
    name = next(p.name for p in parameters if p.kind is not p.VAR_POSITIONAL)
    with pytest.raises(ArgumentError, match=f"is not an argument of {kind.__name__}") as error:
        kind(**{f"{name}_": 1})
    assert error.value.hint == f"Did you mean {name}?"
    assert isinstance(error.value, TypeError)


@each(
    "kind, name, hint",
    [
        (ModelRetryMiddleware, "retries", "Did you mean max_retries?"),
        (HumanInTheLoopMiddleware, "interupt_on", "Did you mean interrupt_on?"),
        (TodoListMiddleware, "color", "It takes system_prompt, tool_description, name."),
    ],
)
def test_an_unknown_argument_of_a_built_in_is_explained(kind: Any, name: str, hint: str) -> None:
    with pytest.raises(ArgumentError) as error:
        kind(**{name: 3})
    assert (error.value.subject, error.value.hint) == (name, hint)


def test_an_argument_by_position_is_explained() -> None:
    with pytest.raises(ArgumentError, match=r"no argument 1 by position, got int \(3\)") as error:
        ModelRetryMiddleware(3)  # type: ignore[call-arg]
    assert error.value.hint.startswith("Write max_retries=...")


def test_the_signature_of_a_middleware_is_that_of_its_constructor() -> None:
    names = [*inspect.signature(ModelRetryMiddleware).parameters]
    assert names[:2] == ["max_retries", "retry_on"]
    for kind in (AgentMiddleware, Plain):
        assert [*inspect.signature(kind).parameters] == ["name"]


class Keywords(AgentMiddleware):
    def __init__(self, *values: int, **options: int) -> None:
        self.given = (values, options)


class Base:
    def __new__(cls, value: int) -> Base:
        created = super().__new__(cls)
        created.value = value  # type: ignore[attr-defined]
        return created


class Both(AgentMiddleware, Base):
    def __init__(self, value: int) -> None:
        super().__init__(name=f"both{value}")


class Own(AgentMiddleware):
    def __new__(cls, size: int) -> Own:
        return super().__new__(cls)

    def __init__(self, size: int) -> None:
        self.size = size


def test_a_class_with_a_constructor_of_its_own_is_made_as_before() -> None:
    assert Keywords(1, 2, a=3).given == ((1, 2), {"a": 3})
    both: Any = Both(3)
    assert (both.name, both.value) == ("both3", 3)
    assert Own(size=4).size == 4


# Arguments of the factories


@each("build", [create_agent, plan_agent])
@each(
    "value, hint",
    [
        ([Plain()], "Write middleware=..."),
        (Plain(), "Write middleware=..."),
        ("Be brief.", "Write system_prompt=..."),
        (InMemorySaver(), "Write checkpointer=..."),
        (5, "Write an argument by its name, such as checkpointer=..."),
    ],
)
def test_a_third_argument_by_position_is_explained(build: Any, value: Any, hint: str) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF101\] argument 3: must be given by") as error:
        build(ScriptedChatModel(), [add], value)
    assert error.value.hint == hint
    assert isinstance(error.value, TypeError)


def test_the_arguments_of_create_react_agent_are_explained() -> None:
    with pytest.raises(TypeError, match="unexpected keyword") as unknown:
        create_react_agent(ScriptedChatModel(), [add], system_prompt="Be brief.")
    assert unknown.value.__notes__ == ["system_prompt: Did you mean prompt?"]


CLASSES = {
    "checkpointer": (InMemorySaver, "Pass InMemorySaver()."),
    "store": (InMemoryStore, "Pass InMemoryStore()."),
    "tools": ([Lookup], "Pass Lookup()."),
    "cache": (InMemoryCache, "Pass InMemoryCache()."),
    "model": (ScriptedChatModel, "Pass ScriptedChatModel()."),
}


@each(
    "build, argument",
    [
        *((create_agent, argument) for argument in CLASSES),
        *((create_react_agent, argument) for argument in ("checkpointer", "store", "tools")),
    ],
)
def test_a_class_in_place_of_an_instance_is_explained(build: Any, argument: str) -> None:
    kind, write = CLASSES[argument]
    arguments: dict[str, Any] = {"model": ScriptedChatModel(), "tools": [], argument: kind}
    with pytest.raises(ArgumentError, match="got the class") as error:
        build(**arguments)
    assert error.value.hint == write


def test_a_class_in_place_of_a_model_is_explained_everywhere() -> None:
    agent: Any = create_agent(ScriptedChatModel())
    with pytest.raises(ArgumentError, match=r"got the class .* Pass ScriptedChatModel\(\)\."):
        with_model(agent, ScriptedChatModel)  # type: ignore[arg-type]
    for kind in (SummarizationMiddleware, ModelFallbackMiddleware):
        with pytest.raises(TypeError, match="got the class ScriptedChatModel"):
            kind(ScriptedChatModel)  # type: ignore[arg-type]


@each("value", [User(), Tenant(), {"name": "ada"}])
@each("build", [create_agent, create_react_agent])
def test_an_instance_in_place_of_the_context_schema_is_refused(build: Any, value: Any) -> None:
    with pytest.raises(SpecError, match=r"context_schema: must be a class") as error:
        build(ScriptedChatModel(), [], context_schema=value)
    assert "agent.invoke(..., context=...)" in error.value.hint


# Names


@each(
    "package, name, hint",
    [
        ("agent_factory", "SummarizationMiddleware", "agent_factory.middleware"),
        ("agent_factory", "ToolStrategy", "agent_factory.structured_output"),
        ("agent_factory.middleware", "create_agent", "agent_factory"),
        ("agent_factory.middleware", "SumarizationMiddleware", "mean SummarizationMiddleware?"),
        ("agent_factory", "creat_agent", "Did you mean create_agent?"),
        ("agent_factory.testing", "ScriptedModel", "Did you mean ScriptedChatModel?"),
    ],
)
def test_a_name_of_another_package_is_found(package: str, name: str, hint: str) -> None:
    if not hint.endswith("?"):
        hint = f"Write `from {hint} import {name}`."
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from '{package}'") as error:
        exec(f"from {package} import {name}")
    assert str(error.value).endswith(hint)
    module = __import__(package, fromlist=["__name__"])
    with pytest.raises(AttributeError) as missing:
        getattr(module, name)
    assert str(missing.value).endswith(hint)
    assert not hasattr(module, name)


def test_a_name_like_no_other_has_the_error_of_python() -> None:
    with pytest.raises(AttributeError) as error:
        _ = agent_factory.nonsense
    assert str(error.value) == "module 'agent_factory' has no attribute 'nonsense'"
    with pytest.raises(ImportError, match="cannot import name 'nonsense' from 'agent_factory'"):
        exec("from agent_factory import nonsense")
