"""Names of tools, agents and middleware that providers or LangGraph refuse."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from pydantic import Field, create_model

from agent_factory import AgentMiddleware, create_agent, plan_agent, warnings_of
from agent_factory.errors import AgentFactoryWarning, SpecError
from agent_factory.prebuilt import agent_tool, create_react_agent
from agent_factory.testing import ScriptedChatModel
from agent_factory.tools.schemas import offered
from samples import tool_results, wrap
from tables import each

GO: Any = {"messages": "Go"}


def named(name: str) -> Any:
    def run(text: str) -> str:
        return text

    return StructuredTool.from_function(run, name=name, description="Run it.")


REFUSED = {
    "order desk": "order_desk",
    "desk/1": "desk_1",
    "Käse": "Kase",
    "read.file": "read_file",
    "x" * 65: "x" * 64,
    "检索": "tool",
}


class Bringing(AgentMiddleware):
    def __init__(self, *tools: Any) -> None:
        super().__init__()
        self.tools = list(tools)


@each("build", [create_agent, plan_agent])
@each("name, write", REFUSED.items())
def test_a_tool_name_that_providers_refuse_is_an_error(build: Any, name: str, write: str) -> None:
    for options in ({"tools": [named(name)]}, {"middleware": [Bringing(named(name))]}):
        with pytest.raises(SpecError, match=r"^\[AF125\] tool '.*has a name that pro") as error:
            build(ScriptedChatModel(), **options)
        assert error.value.subject == f"tool {name!r}"
        assert error.value.hint.startswith(f"Name it {write!r}.")
        build(ScriptedChatModel(), **options, ignore=["AF125"])


INT = {"type": "integer"}
ONE = {"type": "object", "properties": {"a": INT}, "required": ["a"]}
TWO = {"type": "object", "properties": {"a": {"const": "x"}, "b": {}}, "required": ["a", "b"]}
ENTRY: Any = {"$defs": {"two": TWO}, "description": "One or two."}
ENTRIES = {"anyOf": [ONE, {"$ref": "#/$defs/two"}, {"type": "null"}], **ENTRY}
EITHER = {**ONE, "anyOf": [{"required": ["b"]}, {"required": ["a"]}]}


@each(
    "schema, sent, good, bad",
    [
        (ENTRIES, {"a": {"anyOf": [INT, {"const": "x"}]}, "b": {}}, {"a": 1}, "x"),
        ({"oneOf": [TWO, ONE]}, {"a": {"anyOf": [{"const": "x"}, INT]}, "b": {}},
         {"a": "x", "b": 1}, "x"),
        ({"allOf": [ONE, {"properties": {"b": {}}}]}, {"a": INT, "b": {}}, {"a": 1}, "x"),
        (EITHER, ONE["properties"], {"a": 1}, "x"),
        ({"$ref": "#/$defs/two", **ENTRY}, TWO["properties"], {"a": "x", "b": 1}, 1),
        ({"properties": ONE["properties"]}, ONE["properties"], {"a": 1}, None),
    ],
)  # fmt: skip
def test_a_tool_is_sent_as_an_object_and_called_by_its_schema(
    call: Any, schema: Any, sent: Any, good: Any, bad: Any
) -> None:
    """Providers refuse alternatives at the top of a schema, which servers for MCP have."""
    remote = StructuredTool(
        name="remote", description="Far.", args_schema=schema, func=lambda **args: str(args)
    )
    args = [good] if bad is None else [{"a": bad}, good]
    model = ScriptedChatModel([*([{"name": "remote", "args": a}] for a in args), "Done."])
    agent = create_agent(model, [remote], middleware=[Bringing(remote)])
    *errors, (result, status) = tool_results(call(agent, {"messages": "Go."}))
    assert (result, status) == (str(good), "success")
    assert all("the arguments do not fit remote: " in text for text, _ in errors)
    assert len(errors) == len(args) - 1
    shown = offered(remote).args_schema
    assert (shown["type"], shown["properties"]) == ("object", sent)
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & shown.keys()
    assert set(good) >= set(shown.get("required", ()))


class OpenAI(ScriptedChatModel):
    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai"}


KEYS = {"user name": "user_name", "filter[id]": "filter_id", "k" * 80: "k" * 64, "über": "ber"}


@each("key, name", KEYS.items())
def test_an_argument_that_a_provider_refuses_is_an_error(key: str, name: str) -> None:
    schema = {"title": "remote", "type": "object", "properties": {key: {}}}
    remote = StructuredTool(name="remote", description="Far.", args_schema=schema, func=print)
    fields: Any = {"field": (str, Field(alias=key))}
    aliased = remote.model_copy(update={"args_schema": create_model("Aliased", **fields)})
    for options in ({"tools": [remote]}, {"tools": [aliased]}, {"response_format": schema}):
        with pytest.raises(
            SpecError, match=r"^\[AF125\] tool 'remote'.*and Anthropic acc"
        ) as error:
            create_agent(ScriptedChatModel(), **options)
        assert f"has an argument {key!r}" in error.value.reason
        assert error.value.hint.startswith(f"Name it {name!r}.")
        create_agent(ScriptedChatModel(), **options, ignore=["AF125"])
        create_agent(OpenAI(), **options)


@each("schema", [{"type": "array"}, {"anyOf": [{"type": "array"}, {"type": "null"}]}])
def test_a_tool_that_takes_no_object_is_an_error(schema: Any) -> None:
    remote = StructuredTool(name="remote", description="Far.", args_schema=schema, func=print)
    with pytest.raises(SpecError, match=r"^\[AF125\] tool 'remote': has a schema that accepts no"):
        create_agent(ScriptedChatModel(), [remote])


def test_a_long_name_of_a_schema_is_an_error() -> None:
    format_ = {"title": "x" * 65, "type": "object"}
    with pytest.raises(SpecError, match="AF125"):
        create_agent(ScriptedChatModel(), response_format=format_)


@each("name", ["Order desk", "desk/1", "Käse", "x" * 65])
def test_a_name_of_an_agent_that_providers_refuse_is_a_warning(name: str) -> None:
    """It becomes the `name` of its messages, which OpenAI refuses in the second call."""
    with pytest.warns(AgentFactoryWarning, match=r"^\[AF216\] name '") as warnings:
        agent = create_agent(ScriptedChatModel(), name=name)
    (warning,) = warnings_of(agent)
    assert (warning.subject, str(warning)) == (f"name {name!r}", str(warnings[0].message))
    assert warning.hint == f"Pass name={REFUSED.get(name, 'Order_desk')!r}."
    with pytest.raises(SpecError, match="AF216"):
        create_agent(ScriptedChatModel(), name=name, strict=True)
    create_agent(ScriptedChatModel(), name=name, strict=True, ignore=["AF216"])


def test_an_agent_as_a_tool_needs_a_name_that_providers_accept() -> None:
    clerk = create_agent(ScriptedChatModel(), name="Order desk", ignore=["AF216"])
    with pytest.raises(SpecError, match=r"^\[AF125\] tool 'Order desk'.*Name it 'Order_desk'"):
        create_agent(ScriptedChatModel(), [agent_tool(clerk, description="It orders.")])
    create_agent(ScriptedChatModel(), [agent_tool(clerk, name="clerk", description="It orders.")])


def test_create_react_agent_warns_of_names() -> None:
    with pytest.warns(AgentFactoryWarning) as warnings:
        create_react_agent(ScriptedChatModel(), [named("order desk")], name="Käse")
    (warning,) = warnings
    codes = [finding.code for finding in warning.message.warnings]  # type: ignore[union-attr]
    assert codes == ["AF125", "AF216"]
    assert warning.filename == __file__


class Layered(AgentMiddleware):
    wrap_model_call = wrap_tool_call = wrap


class Hooked(Layered):
    def before_model(self, state: Any, runtime: Any) -> None:
        return None


@each("name", ["Side:classifier", "a|b"])
def test_a_middleware_without_hooks_may_have_any_name(name: str) -> None:
    """Only hooks become nodes of LangGraph."""
    made = create_agent(ScriptedChatModel(["Hi."]), [named("add")], middleware=[Layered(name=name)])
    assert made.invoke(GO)["messages"][-1].text == "Hi."
    plan = plan_agent(middleware=[Layered(name=name), Bringing(named("add"))])
    assert f"{name}.wrap_model_call" in plan.render()
    assert plan.to_mermaid()
    for member in (Hooked(name=name), Layered(name=f"clerk/{name}")):
        with pytest.raises(SpecError, match=r"^\[AF104\]"):
            create_agent(ScriptedChatModel(), middleware=[member])
