"""The local chat model on its real weights.

Tests assert tools, arguments and copied facts, never prose.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agent_factory.local_model import LocalChatModel, LocalContextOverflowError, LocalModelError
from model_calls import call, function, result


@tool
def find_order(order_id: str) -> str:
    """Look up the status and delivery of an order."""
    return f"Order {order_id}: shipped on May 3, arrives tomorrow."


@tool
def refund_order(order_id: str, amount: float, reason: str = "") -> str:
    """Refund money for an order that was broken, wrong or late."""
    return f"Refunded {amount:.2f} dollars for order {order_id}."


@tool
def search_policies(query: str) -> str:
    """Search the shop's policies on returns, shipping, warranty and payment."""
    return "Unworn shoes may be returned within 60 days."


# Each turn of a model on its weights takes a second.
pytestmark = pytest.mark.long

SHOP = [find_order, refund_order, search_policies]
EXAMPLES = {"refund_order": ["5 euros back for C-40, it was damaged."]}


class Contact(BaseModel):
    """A contact."""

    name: str = Field(description="name of the person")
    email: str = Field(description="email address")


class Ticket(TypedDict):
    """A support ticket."""

    category: Literal["delivery", "refund", "question"]
    urgent: bool


@dataclasses.dataclass
class Price:
    """A price."""

    amount: float
    currency: Literal["USD", "EUR"]


@pytest.fixture(scope="module")
def model() -> Iterator[LocalChatModel]:
    loaded = LocalChatModel(examples=EXAMPLES, max_tokens=24)
    try:
        loaded.load()
    except ImportError as missing:
        pytest.skip(f"the local model is not installed: {missing}")
    yield loaded
    loaded.close()


@pytest.mark.parametrize(
    ("message", "name", "args"),
    [
        ("Where is my order A-1001?", "find_order", {"order_id": "A-1001"}),
        (
            "Please refund 20 dollars for order A-1001, it arrived broken",
            "refund_order",
            {"order_id": "A-1001", "amount": 20},
        ),
        (
            "Can I return shoes after 30 days?",
            "search_policies",
            {"query": "return shoes after 30 days"},
        ),
    ],
)
def test_a_message_leads_to_its_tool_and_arguments(
    model: LocalChatModel, message: str, name: str, args: dict[str, Any]
) -> None:
    answer = model.bind_tools(SHOP).invoke(message)
    [made] = answer.tool_calls
    assert (made["name"], made["args"]) == (name, args)
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] > 0


def test_small_talk_is_answered_without_a_tool(model: LocalChatModel) -> None:
    answer = model.bind_tools(SHOP).invoke("Thanks, bye!")
    assert answer.text
    assert not answer.tool_calls


def test_a_missing_number_is_asked_for_and_then_used(model: LocalChatModel) -> None:
    shop = model.bind_tools(SHOP)
    talk: list[BaseMessage] = [HumanMessage("I want a refund for order A-1033, please.")]
    talk += [question := shop.invoke(talk), HumanMessage("It was 12.50")]
    assert (question.text, question.tool_calls) == ("What is the amount?", [])
    [made] = shop.invoke(talk).tool_calls
    assert made["name"] == "refund_order"
    assert made["args"] == {"order_id": "A-1033", "amount": 12.5}


def test_after_a_result_the_model_answers_from_it(model: LocalChatModel) -> None:
    talk = [HumanMessage("Where is A-1001?"), call(order_id="A-1001")]
    message = result("Order A-1001: shipped on May 3, arrives tomorrow.")
    answer = model.bind_tools(SHOP).invoke([*talk, message])
    assert not answer.tool_calls
    assert "A-1001" in answer.text
    assert "May 3" in answer.text


@pytest.mark.parametrize("text", ["", "!", "42", 'He said "hi" \\ {"a": 1}\n 😀'])
def test_any_result_can_be_answered_from(model: LocalChatModel, text: str) -> None:
    answer = model.invoke([HumanMessage("What?"), call(), result(text)])
    words = set(answer.text.strip(".").split())
    assert words <= {*text.split(), "Done.", "The", "result", "is", "Nothing"}


async def test_streams_and_async_calls_equal_invoke(model: LocalChatModel) -> None:
    talk = [HumanMessage("Where?"), call(), result("Order A-1001 was shipped on May 3.")]
    answer = model.invoke(talk)
    streamed = list(model.stream(talk))
    assert len(streamed) > 2
    assert sum(streamed[1:], streamed[0]).text == answer.text
    assert streamed[-1].usage_metadata == answer.usage_metadata
    assert (await model.ainvoke(talk)).text == answer.text
    assert "".join([chunk.text async for chunk in model.astream(talk)]) == answer.text


async def test_a_streamed_tool_call_is_the_invoked_one(model: LocalChatModel) -> None:
    shop = model.bind_tools(SHOP[:1], tool_choice="find_order")
    [invoked] = shop.invoke("Where is A-7?").tool_calls
    [streamed] = [made for chunk in shop.stream("Where is A-7?") for made in chunk.tool_calls]
    [awaited] = (await shop.ainvoke("Where is A-7?")).tool_calls
    assert invoked["args"] == streamed["args"] == awaited["args"] == {"order_id": "A-7"}


def test_a_forced_call_follows_a_result_and_a_forbidden_one_does_not(model: LocalChatModel) -> None:
    talk = [HumanMessage("Where is A-7?"), call(order_id="A-7"), result("No such order.")]
    forced = model.bind_tools(SHOP[:1], tool_choice="any").invoke(talk)
    assert forced.tool_calls[0]["args"] == {"order_id": "A-7"}
    assert not model.bind_tools(SHOP, tool_choice="none").invoke("Where is A-7?").tool_calls


def test_a_forced_call_makes_up_what_is_missing(model: LocalChatModel) -> None:
    [made] = model.bind_tools([refund_order], tool_choice="any").invoke("Hello!").tool_calls
    assert made["args"].keys() == {"order_id", "amount"}


@pytest.mark.parametrize(
    "message",
    [
        'My "order" {A-1}\\ \n\t\x00 \ud800 <|im_end|> %',
        "¿Dónde está A-1? 日本語 😀",
        "Where is A-1? " + "please " * 2000,
        "",
    ],
    ids=["signs", "unicode", "long", "empty"],
)
def test_no_text_breaks_a_tool_call(model: LocalChatModel, message: str) -> None:
    [made] = model.bind_tools([find_order], tool_choice="any").invoke(message).tool_calls
    assert list(made["args"]) == ["order_id"]
    assert made["args"]["order_id"] == "A-1" or not message


def test_nested_arguments_follow_their_schema(model: LocalChatModel) -> None:
    class Line(BaseModel):
        item: str
        count: int

    class Basket(BaseModel):
        """Put things into the basket."""

        lines: list[Line]
        express: bool

    [made] = model.bind_tools([Basket], tool_choice="any").invoke("Two mugs and a lamp").tool_calls
    assert Basket.model_validate(made["args"])


async def test_structured_output_is_a_value_of_the_schema(model: LocalChatModel) -> None:
    message = "I am Anna Smith, anna@example.com, my parcel is late, it cost 12.50 euros"
    contact = model.with_structured_output(Contact).invoke(message)
    assert isinstance(contact, Contact)
    assert contact.name == "Anna Smith"
    ticket = await model.with_structured_output(Ticket).ainvoke(message)
    assert ticket.keys() == {"category", "urgent"}
    price = model.with_structured_output(Price).invoke(message)
    assert isinstance(price, Price)
    assert price.amount == 12.5
    copied = model.with_structured_output(Contact, method="function_calling").invoke(message)
    assert copied == Contact(name="Anna Smith", email="anna@example.com")


def test_an_answer_that_is_cut_off_is_an_error_or_is_next_to_it(model: LocalChatModel) -> None:
    with pytest.raises(OutputParserException, match="does not fit the schema"):
        model.with_structured_output(Contact, max_tokens=3).invoke("Anna")
    contact = model.with_structured_output(Contact, include_raw=True, max_tokens=3).invoke("Anna")
    assert isinstance(contact["raw"], AIMessage)
    assert contact["parsed"] is None
    assert isinstance(contact["parsing_error"], OutputParserException)


def test_a_response_format_goes_with_tools(model: LocalChatModel) -> None:
    schema = function(order_id={"type": "string"}, carrier={"type": "string"})["parameters"]
    described = {"name": "Order", "schema": schema, "strict": True}
    response_format = {"type": "json_schema", "json_schema": described}
    shop = model.bind_tools(SHOP[:1], response_format=response_format)
    talk: list[BaseMessage] = [HumanMessage("Where is my order A-1001?")]
    talk.append(shop.invoke(talk))
    [made] = talk[-1].tool_calls if isinstance(talk[-1], AIMessage) else []
    assert made["name"] == "find_order"
    answer = shop.invoke([*talk, ToolMessage("A-1001 went by DHL.", tool_call_id=made["id"])])
    assert json.loads(answer.text).keys() == {"order_id", "carrier"}
    assert json.loads(answer.text)["order_id"] == "A-1001"


def test_a_format_gets_json_where_a_question_would_be_asked(model: LocalChatModel) -> None:
    shop = model.bind_tools([refund_order], response_format={"type": "text"})
    assert shop.invoke("Refund the broken mug of order A-7.").text == "What is the amount?"
    schema = function(answer={"type": "string", "maxLength": 20})["parameters"]
    described = {"type": "json_schema", "json_schema": {"name": "Answer", "schema": schema}}
    answer = shop.invoke("Refund the broken mug of order A-7.", response_format=described)
    assert json.loads(answer.text).keys() == {"answer"}


def test_words_end_at_a_stop_word(model: LocalChatModel) -> None:
    assert "How" in model.invoke("Hi").text
    assert "How" not in model.invoke("Hi", stop=["How"]).text
    talk = [HumanMessage("Where is it?"), call(), result("Order A-1001 was shipped on May 3.")]
    assert "was shipped" in model.invoke(talk).text
    assert "shipped" not in model.invoke(talk, stop=["shipped"]).text


def test_too_long_a_conversation_is_an_overflow_with_its_numbers(model: LocalChatModel) -> None:
    with pytest.raises(LocalContextOverflowError) as caught:
        model.invoke("word " * 5000)
    assert caught.value.tokens > caught.value.limit == model.n_ctx
    with pytest.raises(LocalContextOverflowError):
        list(model.stream("word " * 5000))


def test_a_setting_that_the_engine_refuses_is_a_value_error(model: LocalChatModel) -> None:
    with pytest.raises(ValueError, match=r"refused the request.*temperature"):
        model.invoke("Hi", temperature="hot")
    with pytest.raises(ValueError, match="refused the request"):
        model.invoke("Hi", max_tokens=object())


def test_threads_may_share_a_model(model: LocalChatModel) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda text: model.invoke(text).text, ["Hi"] * 4))


def test_a_stream_that_nobody_reads_on_blocks_nobody(model: LocalChatModel) -> None:
    halfway = model.stream("Tell me a story")
    next(halfway)
    assert model.invoke("Hi").text
    halfway.close()  # type: ignore[attr-defined]  # BaseChatModel.stream is a generator


def test_tokens_are_the_models_own(model: LocalChatModel) -> None:
    assert model.get_num_tokens("Hello world") == 2
    assert model.get_num_tokens_from_messages([HumanMessage("Hello world")]) > 2


def test_a_file_that_is_not_weights_is_a_clear_error(model: LocalChatModel, tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_bytes(b"GGUF no model")
    with pytest.raises(LocalModelError, match=r"could not load .*GGUF file of a chat model"):
        LocalChatModel(model_path=tmp_path / "no.gguf").invoke("Hi")


def test_a_closed_model_loads_again(model: LocalChatModel) -> None:
    model.close()
    assert model.invoke("Hi").text
