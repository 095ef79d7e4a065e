"""The prompts of the local model, and the texts it answers without a call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agent_factory.local_model.slots import Function, Schema, headline, required

REPLY_NAME = "reply"
REPLY_DESCRIPTION = "Greetings, thanks and small talk."

ARGUMENT_SHOTS = """Fill in the arguments of the action from the message.

Action: send_parcel: Send a parcel.
  parcel_id: The parcel id
  weight: The weight in kg
Message: "Please send the parcel Q-55, it has 3 kg."
Arguments: {"parcel_id": "Q-55", "weight": 3}

Action: find_place: Find a place.
  name: What to look for
Message: "Can you find me a good coffee shop?"
Arguments: {"name": "coffee shop"}

Action: search_help: Search the help pages.
  query: What to search for
Message: "Am I able to change my password on the phone?"
Arguments: {"query": "change my password on the phone"}

"""

ANSWER_SHOTS = """Answer the customer with the tool result.

Customer: Where is my parcel?
Tool result: Parcel 12 is in Berlin.
Answer: Parcel 12 is in Berlin.

Customer: What is 6 * 8?
Tool result: 48
Answer: The result is 48.

Customer: Cancel my subscription please.
Tool result: Subscription 7 was cancelled.
Answer: Done. Subscription 7 was cancelled.

Customer: Do you ship to France?
Tool result: We ship to all of Europe.
Answer: We ship to all of Europe.

"""


def routing(name: str, description: str, parameters: Iterable[str], samples: Sequence[str]) -> str:
    """A list of messages that belong to one action, open for one more."""
    needs = ", ".join(parameter.replace("_", " ") for parameter in parameters)
    lines = [
        "Messages that users write to an assistant.\n",
        f"Action: {name}",
        f"Description: {description}",
        *([f"Needs: {needs}"] if needs else []),
        *(f'Message: "{one_line(sample)}"' for sample in samples),
        'Message: "',
    ]
    return "\n".join(lines)


def argument_filling(function: Function, text: str) -> str:
    """A function and a message, open for the function's arguments."""
    fields = [
        f"  {name}: {schema.get('description') or name.replace('_', ' ')}"
        for name, schema in required(function).items()
    ]
    lines = [
        f"Action: {function['name']}: {headline(function)}",
        *fields,
        f'Message: "{text}"',
        "Arguments: ",
    ]
    return ARGUMENT_SHOTS + "\n".join(lines)


def grounded_answer(question: str, result: str) -> str:
    """A question and a tool's result, open for the answer."""
    return f"{ANSWER_SHOTS}Customer: {question}\nTool result: {result}\nAnswer:"


def free_answer(question: str) -> str:
    """Asks in the chat for an answer from the tool results above it."""
    return f"Using only the tool results, answer in one short sentence: {question}"


def json_answer(schema: Schema) -> str:
    """Asks in the chat for an answer in JSON; the schema itself is kept by a grammar."""
    fields = [
        f"- {name}: {field.get('description') or name.replace('_', ' ')}"
        for name, field in (schema.get("properties") or {}).items()
    ]
    return "\n".join(["Answer with a JSON object only.", *fields])


def ask_back(function: Function, missing: Sequence[str]) -> str:
    """The question for the arguments that a message lacks.

    >>> tool = {"name": "refund", "parameters": {"properties": {"amount": {"type": "number"}}}}
    >>> ask_back(tool, ["amount"])
    'What is the amount?'
    """
    fields = (function.get("parameters") or {}).get("properties") or {}
    names = []
    for name in missing:
        described = str((fields.get(name) or {}).get("description") or "").strip().rstrip(".")
        names.append(f"the {name.replace('_', ' ')}" + (f" ({described})" if described else ""))
    if len(names) == 1:
        return f"What is {names[0]}?"
    return f"What are {', '.join(names[:-1])} and {names[-1]}?"


def one_line(text: str, longest: int | None = None) -> str:
    """The text on one line, cut after `longest` characters, without the model's control marks."""
    return unmarked(" ".join(text.split()))[:longest]


def unmarked(text: str) -> str:
    """The text with `<|` split, so that a user's text can't open or close a turn of the chat."""
    return text.replace("<|", "< |")


def in_words(result: str) -> str:
    """A tool's result in words: JSON becomes `key: value`.

    >>> in_words('{"order_id": "A-1001", "items": ["mug", "lamp"]}')
    'order id: A-1001, items: mug, lamp'
    """
    try:
        value = json.loads(result)
    except ValueError:
        return result
    return _spoken(value)


def _spoken(value: Any) -> str:
    match value:
        case dict():
            pairs = (f"{key.replace('_', ' ')}: {_spoken(item)}" for key, item in value.items())
            return ", ".join(pairs)
        case list():
            between = "; " if any(isinstance(item, dict) for item in value) else ", "
            return between.join(map(_spoken, value))
        case str():
            return value
    return json.dumps(value)
