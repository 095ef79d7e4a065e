"""Chat models whose answers pass a flow, chunk by chunk, and those that a run configures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from bound_models import Bound, made
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import ConfigurableField, Runnable, RunnableConfig, RunnableLambda
from pydantic import Field
from stack_agents import agent_of

from agent_factory import (
    AgentMiddleware,
    Flow,
    Invoke,
    ModelRequest,
    NextChunk,
    create_agent,
    create_react_agent,
    stream_through,
    wrap_model_call,
)
from agent_factory import middleware as m
from agent_factory.errors import BadReturn
from agent_factory.hooks.streams import StreamedModel
from agent_factory.middleware.budget.prices import name_of as name_of_model
from agent_factory.testing import ScriptedChatModel, record
from agent_factory.types import bound_tools, chat_models_of, configured, model_name, unbound
from samples import Gpt, OwnModel, add_tool, last_text, look, through
from tables import each

ASK: Any = {"messages": [("user", "How?")]}
RETRY = m.ModelRetryMiddleware(max_retries=3, initial_delay=0)


def unchanged() -> Flow[None]:
    while (chunk := (yield NextChunk())) is not None:
        yield chunk


def louder() -> Flow[None]:
    while (chunk := (yield NextChunk())) is not None:
        yield chunk.model_copy(update={"content": str(chunk.content).upper()})


class Pieces(FakeListChatModel):
    """Model that streams its answer in these pieces, and may fail after one of them."""

    pieces: list[str]
    fails_after: list[int] = []  # noqa: RUF012  # pydantic copies it
    asked: int = 0

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind()

    def _parts(self) -> Iterator[ChatGenerationChunk]:
        self.asked += 1
        fails_after = self.fails_after[self.asked - 1 : self.asked]
        for at, piece in enumerate(self.pieces):
            if at in fails_after:
                raise ConnectionError("cut off")
            last = at == len(self.pieces) - 1
            info = {"finish_reason": "stop"} if last else None
            message = AIMessageChunk(content=piece)
            yield ChatGenerationChunk(message=message, generation_info=info)

    def _stream(self, *_: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        yield from self._parts()

    async def _astream(self, *_: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for part in self._parts():
            await asyncio.sleep(0)
            yield part

    def _generate(self, *_: Any, **kwargs: Any) -> ChatResult:
        text = "".join(str(part.message.content) for part in self._parts())
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


# stream_through


def test_a_streamed_model_forwards_everything_else_to_the_other_model() -> None:
    class Sized(FakeListChatModel):
        window: int = 1000

        def get_num_tokens(self, text: str) -> int:
            return 7

        def get_token_ids(self, text: str) -> list[int]:
            return [1]

        def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
            return ("structured", schema)

    profile: Any = {"max_input_tokens": 9}
    inner = Sized(responses=["x"], profile=profile, tags=["t"], name="sized")
    model = stream_through(inner, unchanged)
    assert model.profile == profile
    assert (model.window, model.responses, model.tags) == (1000, ["x"], ["t"])
    assert (model.get_num_tokens("a"), model.get_token_ids("a")) == (7, [1])
    assert model.get_num_tokens_from_messages([AIMessage("a")]) == 7
    assert model.with_structured_output(int) == ("structured", int)
    with pytest.raises(AttributeError):
        _ = model.nothing
    assert stream_through(model, unchanged) is model
    assert model.invoke("hi").text == "x"


def test_langchain_still_has_the_unpublished_methods_that_a_streamed_model_overrides() -> None:
    hooks = "_serialized _should_stream _should_use_protocol_streaming _get_llm_string"
    for hook in (*hooks.split(), "_combine_llm_outputs"):
        assert hasattr(BaseChatModel, hook)
        assert getattr(StreamedModel, hook) is not getattr(BaseChatModel, hook)


def test_bindings_and_fallbacks_keep_the_flow() -> None:
    first, second = Pieces(responses=[], pieces=["a"], fails_after=[0]), ScriptedChatModel(["b"])
    model = stream_through(first.bind(stop=["."]).with_fallbacks([second]), louder)
    assert model.invoke("Hi").text == "B"


def test_a_model_with_a_flow_uses_no_cache_without_a_key() -> None:
    cache = InMemoryCache()
    for key, texts in ((None, ["B", "C"]), ("louder", ["D", "D"])):
        inner = FakeListChatModel(responses=[text.lower() for text in texts], cache=cache)
        model = stream_through(inner, louder, cache_key=key)
        assert [model.invoke("Hi").text for _ in texts] == texts


@each("streams", [True, False])
def test_a_flow_that_lets_something_else_pass_is_refused(streams: bool) -> None:
    def wrong() -> Flow[None]:
        while (yield NextChunk()) is not None:
            pass
        if streams:
            yield AIMessage("whole")

    model = stream_through(Pieces(responses=[], pieces=["a"]), wrong)
    with pytest.raises(BadReturn, match="a flow of chunks"):
        _ = [*model.stream("Hi")] if streams else model.invoke("Hi")


def test_the_details_of_a_provider_are_kept() -> None:
    def last_only() -> Flow[None]:
        last = None
        while (chunk := (yield NextChunk())) is not None:
            last = chunk
        yield last

    for flow in (unchanged, last_only):
        parts = [*stream_through(Pieces(responses=[], pieces=["a", "b"]), flow).stream("Hi")]
        assert [p.response_metadata for p in parts if p.response_metadata] == [
            {"finish_reason": "stop"}
        ]


def test_a_chunk_that_a_flow_makes_is_read_as_by_its_maker() -> None:
    class Made(Pieces):
        def _parts(self) -> Iterator[ChatGenerationChunk]:
            for part in super()._parts():
                part.message.response_metadata = {"model_provider": "openai"}
                yield part

    def added() -> Flow[None]:
        while (chunk := (yield NextChunk())) is not None:
            yield AIMessageChunk(content=chunk.content)

    parts = [*stream_through(Made(responses=[], pieces=["a", "b"]), added).stream("Hi")]
    assert all(part.response_metadata["model_provider"] == "openai" for part in parts[:2])


# around_stream


class Louder(AgentMiddleware):
    def around_stream(self, request: ModelRequest[Any]) -> Flow[None]:
        yield from louder()


class Counted(AgentMiddleware):
    """Numbers the answers, by what the request was about."""

    def around_stream(self, request: ModelRequest[Any]) -> Flow[None]:
        first = True
        while (chunk := (yield NextChunk())) is not None:
            if first:
                number = len(request.messages)
                chunk = chunk.model_copy(update={"content": f"{number} {chunk.content}"})
            first = False
            yield chunk


def shown(parts: list[Any]) -> dict[str, str]:
    """What a client shows that follows the marks: texts by the ids of their messages."""
    texts: dict[str, str] = {}
    for mode, part in parts:
        if mode == "messages":
            texts[part[0].id] = texts.get(part[0].id, "") + part[0].text
        elif mode == "custom" and part["type"] == "restarted":
            del texts[part["message_id"]]
    return texts


def seen_and_kept(collect: Any, agent: Any) -> tuple[str, str]:
    """What streams to the caller, who follows the marks, and what is in the thread."""
    parts = collect(agent, ASK, stream_mode=["messages", "custom", "values"])
    last = [part for mode, part in parts if mode == "values"][-1]["messages"][-1]
    [text] = shown(parts).values()
    return text, last.text


def test_a_flow_further_out_gets_what_one_further_in_lets_pass(collect: Any) -> None:
    model = Pieces(responses=[], pieces=["how ", "so"])
    for stack in ([Louder(), Counted()], [Counted(), Louder()]):
        agent = create_agent(model, middleware=stack)
        assert seen_and_kept(collect, agent) == ("1 HOW SO", "1 HOW SO")


def test_a_model_that_a_layer_further_in_chooses_has_the_flow(call: Any) -> None:
    class Other(AgentMiddleware):
        def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
            return (yield request.override(model=ScriptedChatModel(["other"])))

    agent = create_agent(ScriptedChatModel(["first"]), middleware=[Louder(), Other()])
    assert last_text(call(agent, ASK)) == "OTHER"


def test_a_flow_may_ask_a_model(collect: Any) -> None:
    class Translated(AgentMiddleware):
        def around_stream(self, request: ModelRequest[Any]) -> Flow[None]:
            while (chunk := (yield NextChunk())) is not None:
                answer = yield Invoke(ScriptedChatModel(["ja "]), chunk.text)
                yield chunk.model_copy(update={"content": answer.text})

    model = Pieces(responses=[], pieces=["yes", "yes"])
    agent = create_agent(model, middleware=[Translated()])
    assert seen_and_kept(collect, agent) == ("ja ja ", "ja ja ")


def test_tools_are_bound_once_for_all_calls(call: Any) -> None:
    model = made(Bound, [[{"name": "look", "args": {}}], "done"])
    agent = create_agent(model, [look], middleware=[Louder()])
    assert last_text(call(agent, ASK)) == "DONE"
    assert [len(tools) for tools in model.bound] == [1]


class Regrouped(AgentMiddleware):
    """Lets the same text pass in other pieces."""

    def __init__(self, size: int) -> None:
        super().__init__(name=f"regrouped{size}")
        self.size = size

    def around_stream(self, request: ModelRequest[Any]) -> Flow[None]:
        text, id_ = "", None
        while (chunk := (yield NextChunk())) is not None:
            if not isinstance(chunk, AIMessageChunk):
                yield chunk
                return
            text, id_ = text + chunk.text, chunk.id
            while len(text) >= self.size:
                yield AIMessageChunk(content=text[: self.size], id=id_)
                text = text[self.size :]
        if text:
            yield AIMessageChunk(content=text, id=id_)


@pytest.mark.long
@pytest.mark.law
@given(
    st.lists(st.text("ab \u00e9", min_size=1, max_size=5), min_size=1, max_size=6),
    st.lists(st.integers(1, 4), max_size=3, unique=True),
    st.lists(st.integers(0, 5), max_size=2),
    st.booleans(),
)
def test_what_streams_is_what_is_kept(
    pieces: list[str], sizes: list[int], failures: list[int], asynchronous: bool
) -> None:
    """For all splits, flows and attempts that fail in the middle."""
    model = Pieces(responses=[], pieces=pieces, fails_after=failures)
    agent: Any = create_agent(model, middleware=[Louder(), *map(Regrouped, sizes), RETRY])

    async def collected(*args: Any, **kwargs: Any) -> list[Any]:
        return [part async for part in agent.astream(*args, **kwargs)]

    def collect(_: Any, *args: Any, **kwargs: Any) -> list[Any]:
        if asynchronous:
            return asyncio.run(collected(*args, **kwargs))
        return [*agent.stream(*args, **kwargs)]

    seen, kept = seen_and_kept(collect, agent)
    assert seen == kept == "".join(pieces).upper()


BOTH: Any = ["messages", "custom"]


@each("fails_after", [[1], [2, 1], [0, 2]], ids=str)
def test_who_follows_the_marks_shows_the_answer_that_is_kept(
    collect: Any, fails_after: list[int]
) -> None:
    model = Pieces(responses=[], pieces=["how ", "so", "?"], fails_after=fails_after)
    agent = create_agent(model, middleware=[RETRY])
    parts = collect(agent, ASK, stream_mode=BOTH)
    assert [*shown(parts).values()] == ["how so?"]
    marks = [part for mode, part in parts if mode == "custom"]
    assert len(marks) == len([at for at in fails_after if at])


def test_an_answer_that_a_layer_replaces_is_marked(collect: Any) -> None:
    class Replaced(AgentMiddleware):
        def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
            yield request
            return AIMessage("no", id="other")

    model = Pieces(responses=[], pieces=["how ", "so"])
    parts = collect(create_agent(model, middleware=[Replaced()]), ASK, stream_mode=BOTH)
    assert shown(parts) == {"other": "no"}


@each("on_cut", ["continue", "shorten"])
def test_the_parts_of_an_answer_that_goes_on_are_kept(collect: Any, on_cut: Any) -> None:
    cut = AIMessage("It costs a ", response_metadata={"finish_reason": "length"})
    agent = agent_of([cut, "whole lot."], m.AnswerGuardMiddleware(on_cut=on_cut))
    parts = collect(agent, ASK, stream_mode=[*BOTH, "values"])
    kept = [part for mode, part in parts if mode == "values"][-1]["messages"][-1].text
    assert kept == {"continue": "It costs a whole lot.", "shorten": "whole lot."}[on_cut]
    assert "".join(shown(parts).values()) == kept


@each("streams", [True, False])
def test_nothing_is_marked_where_one_answer_is_kept(collect: Any, streams: bool) -> None:
    model = Pieces(responses=[], pieces=["how ", "so"], disable_streaming=not streams)
    parts = collect(create_agent(model, middleware=[Louder()]), ASK, stream_mode=BOTH)
    assert {mode for mode, _ in parts} == {"messages"}
    whole = ScriptedChatModel([ConnectionError("cut off"), "so"])  # has no chunks
    retried = collect(create_agent(whole, middleware=[RETRY]), ASK, stream_mode=BOTH)
    assert [*shown(retried).values()] == ["so"]


def test_a_model_with_methods_of_its_kind_keeps_them(collect: Any) -> None:
    class Polite(Pieces):
        def invoke(self, *args: Any, **kwargs: Any) -> AIMessage:
            answer = super().invoke(*args, **kwargs)
            return answer.model_copy(update={"content": f"{answer.text}, please"})

        async def ainvoke(self, *args: Any, **kwargs: Any) -> AIMessage:
            answer = await super().ainvoke(*args, **kwargs)
            return answer.model_copy(update={"content": f"{answer.text}, please"})

    idle = wrap_model_call(name="idle")(through)
    agent = create_agent(Polite(responses=[], pieces=["so"]), middleware=[idle])
    parts = collect(agent, ASK, stream_mode=["messages", "values"])
    assert parts[-1][1]["messages"][-1].text == "so, please"


Run = Callable[..., Any]
GREET: Any = {"messages": [HumanMessage("Hi")]}
LARGE: Any = {"configurable": {"size": "large"}}
SCHEMA = {"title": "Answer", "type": "object", "properties": {"number": {"type": "integer"}}}


class Sized(OwnModel):
    """A model with a size, which logs its size and its tools at each request."""

    size: str = "small"
    log: ClassVar[list[Any]] = []
    requests: list[Any] = Field(default_factory=list)

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
    call(agent, GREET, config)
    assert log == [(size, ["add"] if tools else None)]
    call(agent, GREET)  # a run without the config asks the default again
    assert log[1][0] == "small"


@each("kind", CONFIGURABLE)
def test_a_model_of_create_react_agent_stays_configurable(call: Run, kind: str) -> None:
    log, model = new_log(), CONFIGURABLE[kind](Sized())
    call(create_react_agent(model, [add_tool], response_format=SCHEMA), GREET, LARGE)
    assert [size for size, _ in log] == ["large", "large"]


def test_what_a_model_keeps_in_a_list_is_in_that_of_the_default(call: Run) -> None:
    """A model with other fields is another object: a fake would lose its requests."""
    default = Sized()
    agent = create_agent(CONFIGURABLE["fields"](default), [add_tool])
    call(agent, GREET, LARGE)
    call(agent, GREET)
    assert default.requests == ["large", "small"]


def test_a_layer_may_configure_the_model(call: Run) -> None:
    log = new_log()

    @wrap_model_call
    def enlarge(request: Any) -> Any:
        return (yield request.override(model=request.model.with_config(LARGE)))

    agent = create_agent(CONFIGURABLE["fields"](Sized()), [add_tool], middleware=[enlarge])
    call(agent, GREET)
    assert log == [("large", ["add"])]


def with_pii(model: Any) -> Any:
    return agent_of(model, m.PIIMiddleware("email", apply_to_output=True), tools=[add_tool])


def with_summary(model: Any) -> Any:
    summaries = m.SummarizationMiddleware(model, trigger=("messages", 2), keep=("messages", 1))
    return create_agent(ScriptedChatModel(["ok"] * 2), middleware=[summaries])


def with_selector(model: Any) -> Any:
    select = m.LLMToolSelectorMiddleware(model=model, always_include=["add"])
    tools = [add_tool, add_tool.model_copy(update={"name": "sum"})]
    tools.append(add_tool.model_copy(update={"name": "plus"}))
    return create_agent(ScriptedChatModel(["ok"] * 2), tools, middleware=[select])


def with_judge(model: Any) -> Any:
    steps = [[{"name": "add", "args": {"a": 1, "b": 2}}], "ok"] * 2
    judge = m.AutoModeMiddleware(classifier=model, tools=["add"])
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
    summaries = m.SummarizationMiddleware(writer, trigger=("messages", 2), keep=("messages", 1))
    model = ScriptedChatModel(["ok"])
    history: Any = {"messages": [HumanMessage("a"), HumanMessage("b")]}
    call(create_agent(model, middleware=[summaries]), history, LARGE)
    (prompt,) = large.requests[0].messages
    assert "<conversation>\nUser: a\n</conversation>" in prompt.text


def test_the_strategy_is_that_of_the_configured_model(call: Run) -> None:
    by_provider, by_tool = '{"number": 3}', [{"name": "Answer", "args": {"number": 3}}]
    large = Gpt(steps=[by_tool], model_name="llama")
    model: Any = Gpt(steps=[by_provider])
    agent = create_agent(
        model.configurable_alternatives(FIELD, default_key="small", large=large),
        response_format=SCHEMA,
    )
    assert call(agent, GREET)["structured_response"] == {"number": 3}
    assert call(agent, GREET, LARGE)["structured_response"] == {"number": 3}
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


def test_a_wrapper_has_the_name_of_the_model_in_it(call: Run, tmp_path: Path) -> None:
    model, spans = FakeListChatModel(responses=["x"]), []

    class Spans(BaseCallbackHandler):
        def on_chat_model_start(self, serialized: Any, messages: Any, **data: Any) -> None:
            spans.append((serialized["name"], data["metadata"]["ls_provider"]))

    prices = {"FakeListChatModel": m.Price(input=1, output=1)}
    stack: list[Any] = [
        m.PIIMiddleware("ip", apply_to_output=True),
        m.BudgetMiddleware(run=m.Limits(usd=1), prices=prices),
    ]
    for asked in (model, record(model, tmp_path / "answers.jsonl")):
        agent = create_agent(asked, middleware=stack)
        assert last_text(call(agent, GREET, {"callbacks": [Spans()]})) == "x"
        wrapper = stream_through(asked, unchanged)
        assert unbound(wrapper.bind(stop=["x"])) is model
        assert name_of_model(wrapper) == name_of_model(model)
    assert set(spans) == {("FakeListChatModel", "fakelistchatmodel")}


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
