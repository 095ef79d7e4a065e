"""A structured answer that arrives in pieces is shown as objects that only grow."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from stack_agents import agent_of
from typing_extensions import TypedDict

from agent_factory import (
    PartialAnswer,
    PartialAnswerReader,
    apartial_answers,
    before_model,
    create_agent,
    create_react_agent,
    partial_answers,
)
from agent_factory.errors import ArgumentError
from agent_factory.middleware import ModelRetryMiddleware
from agent_factory.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from agent_factory.testing import Reply, ScriptedChatModel
from tables import each

GO: Any = {"messages": "Go"}
MODES: Any = {"stream_mode": ["messages", "updates"], "version": "v2"}
MODEL = {"langgraph_node": "model"}


class Ticket(BaseModel):
    subject: str
    desk: Literal["billing", "returns"]
    items: list[int] = []


TICKET = '{"subject": "Broken lamp", "desk": "returns", "items": [12, 7]}'


@dataclass
class Partials:
    """An agent that streams its structured answer, for the fixture `collect`."""

    agent: Any
    format: Any
    state: Any = None

    def _watched(self, part: Any) -> Any:
        if isinstance(part, dict):
            mode, data, inside = part["type"], part["data"], part["ns"]
        else:
            mode, data, inside = part[-2], part[-1], len(part) == 3 and part[0]
        if mode == "values" and not inside:
            self.state = data
        return part

    def stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return partial_answers(map(self._watched, self.agent.stream(*args, **kwargs)), self.format)

    async def astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async def parts() -> AsyncIterator[Any]:
            async for part in self.agent.astream(*args, **kwargs):
                yield self._watched(part)

        async for partial in apartial_answers(parts(), self.format):
            yield partial


class PieceModel(ScriptedChatModel):
    """Scripted model that streams the chunks of a reply as arguments of a call of `tool`."""

    tool: str | None = None

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for number, chunk in enumerate(super()._stream(*args, **kwargs)):
            yield self._as_call(chunk, number)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        number = 0
        async for chunk in super()._astream(*args, **kwargs):
            yield self._as_call(chunk, number)
            number += 1

    def _as_call(self, chunk: ChatGenerationChunk, number: int) -> ChatGenerationChunk:
        text = str(chunk.message.content)
        if self.tool is None or not text:
            return chunk
        head = {"name": None, "id": None} if number else {"name": self.tool, "id": "call_1"}
        call: Any = tool_call_chunk(args=text, index=0, **head)
        message = AIMessageChunk(content="", id=chunk.message.id, tool_call_chunks=[call])
        return ChatGenerationChunk(message=message)


def strategy_and_model(by: str, schema: Any, name: str, steps: Sequence[Any]) -> Any:
    """A strategy, and a model that streams by it: "text" or "call"."""
    if by == "text":
        return ProviderStrategy(schema), PieceModel(steps=[*steps])
    return ToolStrategy(schema), PieceModel(steps=[*steps], tool=name)


def chunk(text: str, id: str = "1", **kwargs: Any) -> Any:
    return "messages", (AIMessageChunk(content=text, id=id, **kwargs), MODEL)


def call_chunk(args: str, name: str | None = None, index: int | None = 0, id: str = "1") -> Any:
    call = tool_call_chunk(args=args, name=name, id=name, index=index)
    return chunk("", id, tool_call_chunks=[call])


def objects(parts: Sequence[Any], format: Any = Ticket) -> list[Any]:
    """What a reader returns for each part, and whether that takes the place of the last object."""
    reader: Any = PartialAnswerReader(format)
    partials = map(reader.read, parts)
    return [None if p is None else (dict(p), p.restarted) for p in partials]


# --- Random answers, and what is to be seen of them after each character ------------------------

MISSING: Any = object()


@dataclass
class Scalar:
    """A value that is there from a position on."""

    at: int
    value: Any

    def seen(self, position: int) -> Any:
        return self.value if position >= self.at else MISSING


@dataclass
class Text:
    """A string that is there from its quote on, and each character when it is complete."""

    at: int
    characters: list[tuple[int, str]]

    def seen(self, position: int) -> Any:
        if position < self.at:
            return MISSING
        return "".join(character for at, character in self.characters if at <= position)


@dataclass
class Fields:
    """An object or a list, that is there from its bracket on."""

    at: int
    fields: list[tuple[str | None, Any]]
    is_list: bool

    def seen(self, position: int) -> Any:
        if position < self.at:
            return MISSING
        seen = [(key, value.seen(position)) for key, value in self.fields]
        there = [(key, value) for key, value in seen if value is not MISSING]
        return [value for _, value in there] if self.is_list else dict(there)


class Writer:
    """Writes values as JSON, with random white space and escapes."""

    def __init__(self, random: Random) -> None:
        self.text, self.random = "", random

    def space(self) -> None:
        self.text += self.random.choice(["", "", " ", "\n  ", "\t"])

    def mark(self, text: str) -> None:
        self.space()
        self.text += text

    def string(self, value: str) -> list[tuple[int, str]]:
        self.text += '"'
        characters = []
        for character in value:
            forms = [json.dumps(character)[1:-1]]  # with an escape if it is not ASCII
            if character.isprintable() and character not in '"\\':
                forms.append(character)
            if ord(character) < 2**16:
                forms.append(f"\\u{ord(character):04X}")
            self.text += self.random.choice(forms)
            characters.append((len(self.text), character))
        self.text += '"'
        return characters

    def write(self, value: Any, schema: Any) -> Any:
        """Write a value, and return what is to be seen of it."""
        self.space()
        at = len(self.text) + 1
        if isinstance(value, dict | list):
            is_list = isinstance(value, list)
            self.text += "[" if is_list else "{"
            fields: list[tuple[str | None, Any]] = []
            for number, key in enumerate(range(len(value)) if is_list else value):
                if number:
                    self.mark(",")
                self.space()
                if not is_list:
                    self.string(key)
                    self.mark(":")
                inner = schema["items"] if is_list else schema["properties"][key]
                fields.append((None if is_list else key, self.write(value[key], inner)))
            self.mark("]" if is_list else "}")
            return Fields(at, fields, is_list)
        if isinstance(value, str):
            characters = self.string(value)
            return Scalar(len(self.text), value) if is_listed(schema) else Text(at, characters)
        self.text += json.dumps(value)
        # The digit that ends a number is the last one only if something else follows.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return Scalar(len(self.text) + is_number, value)


def is_listed(schema: Any) -> bool:
    """Whether the values of a random schema are listed."""
    return not {"enum", "const", "$ref"}.isdisjoint(schema) or any(
        map(is_listed, schema.get("anyOf", ()))
    )


NAMES = st.text(min_size=1, max_size=4)
WORDS = st.lists(NAMES, min_size=1, max_size=3)
DEFS = {"Choice": {"enum": ["red", "red wine", 'a "\\ \U0001f600']}}
LEAVES: Any = st.one_of(
    st.sampled_from(["string", "string", "integer", "number", "boolean"]).map(
        lambda name: {"type": name}
    ),
    WORDS.map(lambda words: {"enum": words}),
    NAMES.map(lambda word: {"const": word}),
    st.just({"$ref": "#/$defs/Choice"}),
    WORDS.map(lambda words: {"anyOf": [{"enum": words}, {"type": "null"}]}),
    st.just({"anyOf": [{"type": "string"}, {"type": "null"}]}),
)


def objects_of(inner: Any) -> Any:
    return st.dictionaries(NAMES, inner, max_size=3).map(
        lambda fields: {"type": "object", "properties": fields, "required": [*fields]}
    )


# Of larger ones in the arguments of a call, a thread keeps the text, so that it can be stored.
INTEGERS = st.integers(-(2**63), 2**63 - 1)
SCHEMAS = objects_of(
    st.recursive(
        LEAVES,
        lambda inner: objects_of(inner) | inner.map(lambda s: {"type": "array", "items": s}),
        max_leaves=4,
    )
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6) | st.text(
    '\\"\U0001f600u/0\n', max_size=6
)
SCALARS: dict[str, Any] = {
    "string": TEXTS,
    "integer": INTEGERS,
    "number": st.floats(allow_nan=False, allow_infinity=False) | INTEGERS,
    "boolean": st.booleans(),
    "null": st.none(),
}


def values_of(schema: Any) -> Any:
    """Values that match a random schema."""
    match schema:
        case {"enum": words}:
            return st.sampled_from(words)
        case {"const": word}:
            return st.just(word)
        case {"$ref": _}:
            return st.sampled_from(DEFS["Choice"]["enum"])
        case {"anyOf": members}:
            return st.one_of(*map(values_of, members))
        case {"items": items}:
            return st.lists(values_of(items), max_size=3)
        case {"properties": fields}:
            return st.fixed_dictionaries({key: values_of(inner) for key, inner in fields.items()})
    return SCALARS[schema["type"]]


@st.composite
def answers(draw: Any) -> tuple[Any, Any, str, Any, Random]:
    """A schema, a value, its text, what is to be seen of it, and a source of chance."""
    schema, random = draw(SCHEMAS), draw(st.randoms(use_true_random=False))
    schema |= {"title": "answer", "$defs": DEFS}
    value, writer = draw(values_of(schema)), Writer(random)
    seen = writer.write(value, schema)
    writer.space()
    return schema, value, writer.text, seen, random


def split(text: str, random: Random) -> list[str]:
    """The text in pieces; half of the time, each is a character."""
    if random.random() < 0.5:
        return [*text]
    share = random.random()
    cuts = [n for n in range(1, len(text)) if random.random() < share]
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.long
@pytest.mark.law
@given(answers(), st.sampled_from(["text", "call"]))
def test_an_object_has_all_that_is_complete_in_the_text_so_far(answer: Any, by: str) -> None:
    schema, value, text, expected, random = answer
    reader: Any = PartialAnswerReader(schema)
    position, seen = 0, MISSING
    for piece in split(text, random):
        part = chunk(piece) if by == "text" else call_chunk(piece, None if position else "answer")
        position += len(piece)
        if (partial := reader.read(part)) is not None:
            assert not partial.restarted
            assert not partial.is_complete
            assert not same(partial, seen), "nothing has changed"
            seen = dict(partial)
        assert same(seen, expected.seen(position)), text[:position]
    assert same(seen, value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, where 1, 1.0 and true differ."""
    return repr(one) == repr(other)


def continues(before: Any, after: Any) -> bool:
    """Whether a value continues another one, leaf by leaf."""
    later = dict(leaves(after))
    return all(
        path in later
        and (str(later[path]).startswith(leaf) if isinstance(leaf, str) else later[path] == leaf)
        for path, leaf in leaves(before)
    )


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if not isinstance(value, dict | list):
        yield path, value
        return
    yield path, type(value)
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(inner, (*path, key))


FAILURES = st.lists(st.sampled_from(["invalid", "cut", "broken"]), max_size=2)
FORMS = st.fixed_dictionaries(
    {"version": st.sampled_from(["v1", "v2"]), "subgraphs": st.booleans()}
)


@settings(settings.get_profile("costly"))
@given(answers(), FAILURES, FORMS, st.sampled_from(["text", "call"]))
def test_the_marks_lead_to_the_answer_of_the_state(
    collect: Any, answer: Any, failures: list[str], form: Any, by: str
) -> None:
    schema, value, text, _, random = answer
    # A field that the invalid answers lack.
    schema = {**schema, "required": [*schema["required"], "last one"]}
    head = text.rstrip().removesuffix("}").rstrip()
    whole = head + (", " if value else "") + '"last one": true}'
    replies = {
        "invalid": lambda: Reply(chunks=split(text, random)),
        "cut": lambda: Reply(chunks=split(text[: random.randrange(1, len(text.rstrip()))], random)),
        "broken": lambda: Reply(chunks=split(text, random), error=ConnectionError("lost")),
    }
    steps = [replies[failure]() for failure in failures]
    steps.append(Reply(chunks=split(whole, random)))
    strategy, model = strategy_and_model(by, schema, "answer", steps)
    retry = ModelRetryMiddleware(max_retries=3, initial_delay=0, jitter=False)
    options: Any = {"middleware": [retry], "ignore": ["AF125"]}
    agent = Partials(create_agent(model, response_format=strategy, **options), strategy)
    partials = collect(agent, GO, stream_mode=["updates", "values", "messages"], **form)
    assert partials[-1] == agent.state["structured_response"] == {**value, "last one": True}
    assert partials[-1].answer == agent.state["structured_response"]
    assert [partial.is_complete for partial in partials] == [False] * (len(partials) - 1) + [True]
    for before, after in pairwise(partials):
        assert after.restarted or continues(before, after)
    # A text that is cut may be cut before its bracket.
    assert sum(partial.restarted for partial in partials) <= len(failures)
    model.assert_done()


# --- Schemas ------------------------------------------------------------------------------------


@dataclass
class TicketData:
    subject: str
    desk: Literal["billing", "returns"]
    items: list[int]


class TicketDict(TypedDict):
    subject: str
    desk: Literal["billing", "returns"]
    items: list[int]


@each("by", ["text", "call"])
@each(
    "schema",
    [Ticket, TicketData, TicketDict, Ticket.model_json_schema()],
    ids=lambda s: str(s)[:22],
)
def test_each_schema_gives_plain_values_and_its_instance(
    collect: Any, schema: Any, by: str
) -> None:
    name = "Ticket" if isinstance(schema, dict) else schema.__name__
    strategy, model = strategy_and_model(by, schema, name, [Reply(chunks=[*TICKET])])
    agent = create_agent(model, response_format=strategy)
    partials = collect(Partials(agent, strategy), GO, **MODES)
    shown = [dict(partial) for partial in partials]
    assert shown[:4] == [{}, {"subject": ""}, {"subject": "B"}, {"subject": "Br"}]
    whole = {"subject": "Broken lamp", "desk": "returns"}
    numbers: list[list[int]] = [[], [12], [12, 7], [12, 7]]
    assert shown[-5:] == [whole, *({**whole, "items": items} for items in numbers)]
    assert [partial.is_complete for partial in partials].index(True) == len(partials) - 1
    assert to_jsonable_python(partials[-1].answer) == json.loads(TICKET)
    assert isinstance(partials[-1].answer, Ticket | TicketData | dict)
    assert {(partial.schema, partial.restarted) for partial in partials} == {(name, False)}


def test_the_name_of_the_tool_says_which_schema_of_a_union_is_meant(collect: Any) -> None:
    model = PieceModel(steps=[Reply(chunks=['{"a', '": 1}'])], tool="TicketDict")
    model.steps.append(Reply(chunks=[TICKET[:20], TICKET[20:]]))
    agent = create_agent(model, response_format=Ticket | TicketDict)
    partials = collect(Partials(agent, Ticket | TicketDict), GO, **MODES)
    assert {partial.schema for partial in partials} == {"TicketDict"}
    assert partials[-1].answer == json.loads(TICKET)
    first = call_chunk('{"subject": "A', "Ticket")
    reader: Any = PartialAnswerReader(ToolStrategy(Ticket | TicketDict))
    assert reader.read(first).schema == "Ticket"


def test_defaults_grow_and_converted_values_restart(collect: Any) -> None:
    class Parcel(BaseModel):
        weight: int
        fragile: bool = True

    for text, restarted in (('{"weight": 12}', False), ('{"weight": "12"}', True)):
        agent = create_agent(ScriptedChatModel([text]), response_format=ProviderStrategy(Parcel))
        last = collect(Partials(agent, Parcel), GO, **MODES)[-1]
        assert last == {"weight": 12, "fragile": True}
        assert last.restarted is restarted
        assert last.answer == Parcel(weight=12)


@each(
    "schema",
    [
        {"properties": {"a": {"enum": ["xy"]}}},
        {"properties": {"a": {"const": "xy"}}},
        {"properties": {"a": {"anyOf": [{"type": "null"}, {"oneOf": [{"enum": ["xy"]}]}]}}},
        {"additionalProperties": {"enum": ["xy"]}},
        {"patternProperties": {"^a": {"enum": ["xy"]}}},
        {"properties": {"a": {"$ref": "#/$defs/b~1c%20d"}}, "$defs": {"b/c d": {"enum": ["xy"]}}},
        {"properties": {"a": {"allOf": [{"enum": ["xy"]}]}}},
        {"properties": {"a": {"if": {}, "then": {"enum": ["xy"]}}}},
        {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"a": {"const": "xy"}}}}},
    ],
)
def test_a_string_of_an_enum_is_shown_when_it_is_complete(schema: Any) -> None:
    schema = {"title": "answer", "type": "object", **schema}
    assert objects([*map(chunk, ['{"a": "x', "y", '"', ', "z": [true]}'])], schema) == [
        ({}, False),
        None,
        ({"a": "xy"}, False),
        ({"a": "xy", "z": [True]}, False),
    ]


@each(
    "schema",
    [
        {"items": {"enum": ["x", "yz"]}},
        {"prefixItems": [{"type": "string"}, {"enum": ["yz"]}]},
        {"prefixItems": [True], "items": {"enum": ["yz"]}},
    ],
)
def test_an_item_of_an_enum_is_shown_when_it_is_complete(schema: Any) -> None:
    schema = {"title": "answer", "type": "object", "properties": {"a": schema}}
    seen = objects([*map(chunk, ['{"a": ["x", ', '"y', 'z"'])], schema)
    assert seen == [({"a": ["x"]}, False), None, ({"a": ["x", "yz"]}, False)]


def test_before_draft_2020_items_lists_the_first_items() -> None:
    items = {"items": [{"enum": ["xy"]}], "additionalItems": {"type": "string"}}
    draft = "http://json-schema.org/draft-07/schema#"
    schema = {"$schema": draft, "title": "answer", "type": "object", "properties": {"a": items}}
    seen = objects([*map(chunk, ['{"a": ["x', 'y"', ', "z'])], schema)
    assert seen == [({"a": []}, False), ({"a": ["xy"]}, False), ({"a": ["xy", "z"]}, False)]


def test_a_reference_of_another_form_leaves_a_string_free() -> None:
    choice = {"$anchor": "choice", "enum": ["xy"]}
    for reference in ("#choice", "#/$defs/choice/enum/0"):
        inner = {"allOf": [{"$ref": "#choice"}]} if reference == "#choice" else {}
        fields = {"properties": {"a": {"$ref": "#/$defs/b"}}}
        schema = {**fields, "$defs": {"b": inner, "choice": choice}}
        schema = {"title": "answer", "type": "object", **schema}
        assert objects([chunk('{"a": "x')], schema) == [({"a": "x"}, False)]


# --- Messages -----------------------------------------------------------------------------------


@each("one, other", [("1", "2"), ("lc_run--1", "lc_run--2")])
def test_a_new_message_begins_again_even_with_the_same_text(one: str, other: str) -> None:
    parts = [chunk('{"subject": "A', one), chunk('{"subject": "A', other), chunk("B", other)]
    a, ab = {"subject": "A"}, {"subject": "AB"}
    assert objects(parts) == [(a, False), (a, True), (ab, False)]


def test_a_field_that_is_given_twice_restarts() -> None:
    b = {"subject": "B"}
    assert objects([chunk('{"subject": "A"'), chunk(', "subject": "B')])[1] == (b, True)
    assert objects([chunk('{"subject": "A", "subject": "B')]) == [(b, False)]


@each("first", ["resp_1", "run"])
def test_the_id_of_a_run_continues_the_first_chunk(first: str) -> None:
    run, other = "lc_run--1", "lc_run--2"
    ids = ["resp_1" if first == "resp_1" else run, run, run, "resp_2", other, "resp_2"]
    texts = ['{"subject', '": "A', "B", '{"subject', '": "C', "D"]
    seen = objects([chunk(text, id) for text, id in zip(texts, ids, strict=True)])
    expected = [{}, {"subject": "A"}, {"subject": "AB"}, {}, {"subject": "C"}, {"subject": "CD"}]
    assert seen == [(value, number == 3) for number, value in enumerate(expected)]


def test_a_model_that_does_not_stream_gives_its_answer_at_once(collect: Any) -> None:
    call = [{"name": "Ticket", "args": json.loads(TICKET)}]
    for strategy, step in ((ProviderStrategy(Ticket), TICKET), (ToolStrategy(Ticket), call)):
        model = ScriptedChatModel([step], disable_streaming=True)
        agent = create_agent(model, response_format=strategy)
        partials = collect(Partials(agent, strategy), GO, **MODES)
        assert partials == [json.loads(TICKET)] * 2
        assert [partial.is_complete for partial in partials] == [False, True]


def test_calls_without_an_index_are_told_by_their_names() -> None:
    parts = [
        call_chunk('{"q": 1}', "find", None),
        call_chunk('{"subject', "Ticket", None),
        call_chunk('": "A', None, None),
    ]
    assert objects(parts) == [None, ({}, False), ({"subject": "A"}, False)]


def test_only_the_call_of_the_schema_counts() -> None:
    parts = [
        chunk("Well: "),
        call_chunk('{"q": "x"}', "find"),
        call_chunk('{"subject": "', "Ticket", 1),
    ]
    assert objects([*parts, call_chunk('A", "q": 1', None, 0), call_chunk("B", None, 1)]) == [
        None,
        None,
        ({"subject": ""}, False),
        None,
        ({"subject": "B"}, False),
    ]


def test_a_text_in_json_is_an_answer_to_one_schema() -> None:
    text, prose = chunk('{"subject": "A'), chunk("It is {")
    for strategy in (AutoStrategy, ProviderStrategy, ToolStrategy):
        assert objects([text], strategy(Ticket)) == [({"subject": "A"}, False)]
    union: Any = Ticket | TicketDict
    assert objects([text], union) == [None]
    assert objects([prose]) == objects([chunk('["subject"')]) == [None]
    assert objects([call_chunk('{"subject": "A', "Ticket")], ProviderStrategy(Ticket)) == [None]


def test_line_breaks_inside_of_strings_are_read_as_langchain_reads_them() -> None:
    parts = [call_chunk('{\n"subject": "a\nb\tc\\"', "Ticket"), call_chunk("\n", None)]
    assert objects(parts) == [({"subject": 'a\nb\tc"'}, False), ({"subject": 'a\nb\tc"\n'}, False)]


def test_text_that_is_not_json_leaves_the_object() -> None:
    seen = objects([*map(chunk, ['{"subject": "A"', " nonsense", ', "desk": "billing"}'])])
    assert seen == [({"subject": "A"}, False), None, None]
    assert objects([chunk('{"subject": "\ud83d"}')]) == [None]


def test_numbers_wait_for_what_follows_them() -> None:
    texts = ['{"items": [1', "2", ", -", "1.5e", "+3", " ", "], ", '"subject": "1', "2"]
    shown: list[Any] = [None if seen is None else seen[0] for seen in objects([*map(chunk, texts)])]
    numbers = {"items": [12, -1500.0]}
    assert shown[:7] == [{"items": []}, None, {"items": [12]}, None, None, numbers, None]
    assert shown[7:] == [{**numbers, "subject": "1"}, {**numbers, "subject": "12"}]


# --- Streams ------------------------------------------------------------------------------------


def answering(*steps: Any, **kwargs: Any) -> Any:
    return agent_of([*steps], response_format=ProviderStrategy(Ticket), **kwargs)


def test_agents_and_models_inside_and_messages_of_hooks_do_not_count(collect: Any) -> None:
    inner = answering(TICKET.replace("lamp", "chair"))

    def ask() -> str:
        """Ask an agent and a model."""
        inner.invoke(GO)
        return ScriptedChatModel(['{"subject": "Inside"}']).invoke("Go").text

    @before_model
    def example(state: Any, runtime: Any) -> Any:
        return {"messages": [AIMessage('{"subject": "An example"}')]}

    agent = create_agent(
        ScriptedChatModel([[{"name": "ask", "args": {}}], TICKET]),
        [ask],
        middleware=[example],
        response_format=ProviderStrategy(Ticket),
    )
    partials = collect(Partials(agent, Ticket), GO, **MODES, subgraphs=True)
    assert {partial.get("subject", "Broken lamp")[:6] for partial in partials} == {"Broken"}
    assert sum(partial.is_complete for partial in partials) == 1
    assert not any(partial.restarted for partial in partials)


def test_an_agent_inside_a_graph_is_followed_there() -> None:
    seen: list[Any] = []

    def node(state: Any) -> Any:
        for version in ("v1", "v2"):
            modes: Any = {**MODES, "version": version, "subgraphs": True}
            seen.append([*partial_answers(answering(TICKET).stream(GO, **modes), Ticket)])
        return {}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    graph.compile().invoke(GO)
    assert [partials[-1].answer for partials in seen] == [Ticket.model_validate_json(TICKET)] * 2
    assert min(map(len, seen)) > 3


def test_an_agent_of_create_react_agent_is_followed(collect: Any) -> None:
    call = [{"name": "Ticket", "args": json.loads(TICKET)}]
    agent = create_react_agent(ScriptedChatModel(["Done.", call]), [], response_format=Ticket)
    partials = collect(Partials(agent, Ticket), GO, **MODES)
    answer = json.loads(TICKET)
    assert [(dict(p), p.is_complete) for p in partials] == [(answer, False), (answer, True)]


def test_an_answer_of_no_model_has_no_message_to_follow() -> None:
    reader: Any = PartialAnswerReader(Ticket | TicketDict)
    writes = [{"structured_response": None}, {"structured_response": json.loads(TICKET)}]
    partial = reader.read(("updates", {"tools": writes, "__interrupt__": (), "hook": None}))
    assert (partial, partial.schema, partial.is_complete) == (json.loads(TICKET), None, True)
    assert reader.read(("updates", {"hook": {"structured_response": None}})) is None


def test_a_stream_of_other_modes_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r'must be of several modes.*"messages", "updates"'):
        list(partial_answers(answering(TICKET).stream(GO, stream_mode="messages"), Ticket))
    only: Any = answering(TICKET).stream(GO, stream_mode="messages", version="v2")
    with pytest.raises(ArgumentError, match='must be of two modes, got "messages" alone'):
        list(partial_answers(only, Ticket))
    wrong: Any = None
    with pytest.raises(ArgumentError, match="must be a schema or a strategy"):
        next(partial_answers([], wrong))


async def test_a_client_that_leaves_ends_the_run() -> None:
    ended = []

    async def parts() -> AsyncIterator[Any]:
        try:
            yield chunk("{")
            yield chunk('"')
        finally:
            ended.append(True)

    stream = parts()
    partials: Any = apartial_answers(stream, Ticket)
    async with aclosing(partials):
        async for partial in partials:
            assert isinstance(partial, PartialAnswer)
            break
    assert ended == [True]
