"""Chat models that a run configures: the agent and its layers ask the model that is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import ConfigurableField, Runnable, RunnableConfig, RunnableLambda
from pydantic import Field

from agent_factory import create_agent, create_react_agent, wrap_model_call
from agent_factory.middleware import (
    AutoModeMiddleware,
    LLMToolSelectorMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from agent_factory.types import bound_tools, chat_models_of, configured, model_name, unbound
from samples import add_tool
from tables import each

Run = Callable[..., Any]
ASK: Any = {"messages": [HumanMessage("Hi")]}
LARGE: Any = {"configurable": {"size": "large"}}
SCHEMA = {"title": "Answer", "type": "object", "properties": {"number": {"type": "integer"}}}


class Sized(BaseChatModel):
    """A model with a size, which logs its size and its tools at each request."""

    size: str = "small"
    log: ClassVar[list[Any]] = []
    requests: list[Any] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "sized"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[getattr(tool, "name", "schema") for tool in tools], **kwargs)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        size = self.size

        def answer(_: object) -> object:
            self.log.append((size, "schema"))
            parsed = {"tools": ["add"], "probability": 0.0, "reason": "", "number": 3}
            return {"raw": AIMessage(""), "parsed": parsed} if kwargs else parsed

        return RunnableLambda(answer)

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        self.log.append((self.size, kwargs.get("tools")))
        self.requests.append(self.size)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("ok"))])


FIELD = ConfigurableField(id="size")
CONFIGURABLE: dict[str, Callable[[Sized], Any]] = {
    "fields": lambda model: model.configurable_fields(size=FIELD),
    "alternatives": lambda model: model.configurable_alternatives(
        FIELD, default_key="small", large=Sized(size="large")
    ),
    "alternatives by a function": lambda model: model.configurable_alternatives(
        FIELD, default_key="small", large=lambda: model.model_copy(update={"size": "large"})
    ),
    "a binding around": lambda model: model.configurable_fields(size=FIELD).bind(stop=["x"]),
    "a binding inside": lambda model: model.configurable_alternatives(
        FIELD, default_key="small", large=model.model_copy(update={"size": "large"}).bind(n=1)
    ),
    "tags": lambda model: model.configurable_fields(size=FIELD).with_config(tags=["mine"]),
    "fallbacks": lambda model: model.configurable_fields(size=FIELD).with_fallbacks([Sized()]),
}
"""Ways to make a model configurable."""


def new_log() -> list[Any]:
    """The requests of all models from here on."""
    Sized.log.clear()
    return Sized.log


@each("kind", CONFIGURABLE)
@each("tools", [[], [add_tool]])
@each("config, size", [({}, "small"), (LARGE, "large")])
def test_a_model_stays_configurable(
    call: Run, kind: str, tools: Any, config: Any, size: str
) -> None:
    log, agent = new_log(), create_agent(CONFIGURABLE[kind](Sized()), tools)
    call(agent, ASK, config)
    assert log == [(size, ["add"] if tools else None)]
    call(agent, ASK)  # a run without the config asks the default again
    assert log[1][0] == "small"


@each("kind", CONFIGURABLE)
def test_a_model_of_create_react_agent_stays_configurable(call: Run, kind: str) -> None:
    log, model = new_log(), CONFIGURABLE[kind](Sized())
    call(create_react_agent(model, [add_tool], response_format=SCHEMA), ASK, LARGE)
    assert [size for size, _ in log] == ["large", "large"]


def test_what_a_model_keeps_in_a_list_is_in_that_of_the_default(call: Run) -> None:
    """A model with other fields is another object: a fake would lose its requests."""
    default = Sized()
    agent = create_agent(CONFIGURABLE["fields"](default), [add_tool])
    call(agent, ASK, LARGE)
    call(agent, ASK)
    assert default.requests == ["large", "small"]


def test_a_layer_may_configure_the_model(call: Run) -> None:
    log = new_log()

    @wrap_model_call
    def enlarge(request: Any) -> Any:
        return (yield request.override(model=request.model.with_config(LARGE)))

    agent = create_agent(CONFIGURABLE["fields"](Sized()), [add_tool], middleware=[enlarge])
    call(agent, ASK)
    assert log == [("large", ["add"])]


def with_pii(model: Any) -> Any:
    return create_agent(
        model, [add_tool], middleware=[PIIMiddleware("email", apply_to_output=True)]
    )


def with_summary(model: Any) -> Any:
    summaries = SummarizationMiddleware(model, trigger=("messages", 2), keep=("messages", 1))
    return create_agent(ScriptedChatModel(["ok"] * 2), middleware=[summaries])


def with_selector(model: Any) -> Any:
    select = LLMToolSelectorMiddleware(model=model, always_include=["add"])
    tools = [add_tool, add_tool.model_copy(update={"name": "sum"})]
    tools.append(add_tool.model_copy(update={"name": "plus"}))
    return create_agent(ScriptedChatModel(["ok"] * 2), tools, middleware=[select])


def with_judge(model: Any) -> Any:
    steps = [[{"name": "add", "args": {"a": 1, "b": 2}}], "ok"] * 2
    judge = AutoModeMiddleware(classifier=model, tools=["add"])
    return create_agent(ScriptedChatModel(steps), [add_tool], middleware=[judge])


@each("build", [with_pii, with_summary, with_selector, with_judge])
@each("kind", CONFIGURABLE)
def test_built_ins_ask_the_model_that_the_run_configures(call: Run, build: Any, kind: str) -> None:
    log, agent = new_log(), build(CONFIGURABLE[kind](Sized()))
    history: Any = {"messages": [HumanMessage("a"), AIMessage("b"), HumanMessage("c")]}
    call(agent, history, LARGE)
    call(agent, history)
    assert [size for size, _ in log] == ["large", "small"]


def test_a_configurable_summary_model_is_asked_with_the_prompt(call: Run) -> None:
    """It is a model, and not a function of the messages."""
    small, large = ScriptedChatModel([]), ScriptedChatModel(["S"])
    writer: Any = small.configurable_alternatives(FIELD, default_key="small", large=large)
    summaries = SummarizationMiddleware(writer, trigger=("messages", 2), keep=("messages", 1))
    model = ScriptedChatModel(["ok"])
    history: Any = {"messages": [HumanMessage("a"), HumanMessage("b")]}
    call(create_agent(model, middleware=[summaries]), history, LARGE)
    (prompt,) = large.requests[0].messages
    assert "<conversation>\nUser: a\n</conversation>" in prompt.text


def test_the_strategy_is_that_of_the_configured_model(call: Run) -> None:
    class Named(ScriptedChatModel):
        model_name: str = "gpt-5"

    by_provider, by_tool = '{"number": 3}', [{"name": "Answer", "args": {"number": 3}}]
    large = Named(steps=[by_tool], model_name="llama")
    model: Any = Named(steps=[by_provider])
    agent = create_agent(
        model.configurable_alternatives(FIELD, default_key="small", large=large),
        response_format=SCHEMA,
    )
    assert call(agent, ASK)["structured_response"] == {"number": 3}
    assert call(agent, ASK, LARGE)["structured_response"] == {"number": 3}
    assert (model.requests[0].tools, large.requests[0].tools) == ([], ["Answer"])


def test_any_other_model_is_returned_as_it_is() -> None:
    model = Sized()
    chain: Any = RunnableLambda(lambda _: AIMessage("ok"))
    for same in (model, model.bind(stop=["x"]), model.with_fallbacks([Sized()]), chain, "name"):
        assert configured(same) is same


def test_a_config_takes_precedence_over_that_of_the_run() -> None:
    config: RunnableConfig = LARGE
    assert configured(CONFIGURABLE["fields"](Sized()), config).size == "large"
    bound = configured(CONFIGURABLE["a binding around"](Sized()), config)
    assert (bound.bound.size, bound.kwargs) == ("large", {"stop": ["x"]})


def test_the_model_inside_of_bindings_and_fallbacks() -> None:
    model, other = Sized(), Sized()
    assert unbound(model.bind(a=1).bind(b=2)) is model
    assert chat_models_of(model.with_fallbacks([other.bind(a=1)]).bind(b=2)) == [model, other]
    assert chat_models_of(model) == [model]
    assert bound_tools(model.bind_tools([add_tool]).bind(stop=["x"])) == ["add"]
    assert bound_tools(model) == []


def test_the_name_of_a_model() -> None:
    assert model_name(object()) is None
    for field in ("model_name", "model", "model_id"):
        assert model_name(type("Model", (), {field: "gpt-5"})()) == "gpt-5"
    both = type("Model", (), {"model_name": "", "model": "gpt-5", "model_id": "other"})()
    assert model_name(both) == "gpt-5"
