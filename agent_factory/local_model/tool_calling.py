"""Tool calls for a model that cannot write tool calls, from two decisions.

*Which tool*: the tool under which the user's message is most likely (a noisy channel). Asked
"which tool?", a model of this size answers little better than chance. *Which arguments*: one
decode under a grammar of the values in the message.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.messages.tool import tool_call
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent_factory.local_model import requests
from agent_factory.local_model.engine import Engine, Reply
from agent_factory.local_model.messages import ASKED_FOR, Turn, one_line
from agent_factory.local_model.slots import (
    REPLY,
    Function,
    evidence,
    fallback_arguments,
    missing,
    required,
)
from agent_factory.local_model.weights import LocalModelError

LONGEST_ROUTED = 240  # scored characters of a message; the request usually comes early
LONGEST_READ = 1500  # characters of a message with arguments
LONGEST_ARGUMENTS = 320  # tokens
# Least log-likelihood of a token: an odd name would outweigh all other words.
LEAST_LIKELY = -25.0


@dataclass
class ToolCaller:
    """Decides on the tool call of a turn; `usage` counts the tokens of the decision."""

    engine: Engine
    examples: Mapping[str, Sequence[str]]
    reply_examples: Sequence[str]
    seed: int
    usage: UsageMetadata = field(
        default_factory=lambda: UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)
    )

    def decide(self, turn: Turn, functions: Sequence[Function], forced: bool) -> AIMessage | None:
        """The message with a call, or with a question for arguments; None to answer in prose."""
        pending_call = answered_question(turn, functions)
        if pending_call is not None:
            return self._call(*pending_call, forced)
        actions = [*functions] if forced else [*functions, REPLY]
        action, line = actions[0], one_line(turn.text, LONGEST_ROUTED)
        # Each score is a request to the engine, so a choice without an alternative is not scored.
        if len(actions) > 1 and line:
            action = max(actions, key=lambda action: self._score(action, line, functions))
        elif not forced:
            action = REPLY
        return None if action is REPLY else self._call(action, turn.text, forced)

    def _call(self, function: Function, text: str, forced: bool) -> AIMessage:
        lacking = missing(function, text)
        if lacking and not forced:
            question = {"tool": function["name"], "missing": lacking, "text": text}
            metadata = {"finish_reason": "stop", ASKED_FOR: question}
            return AIMessage(ask_back(function, lacking), response_metadata=metadata)
        arguments: dict[str, object] = {}
        if required(function):
            line = one_line(text, LONGEST_READ)
            request = requests.argument_filling(function, line)
            reply = self._decode({**request, "max_tokens": LONGEST_ARGUMENTS})
            arguments = parsed_arguments(reply.text, function, line)
        name = str(function["name"])
        call = tool_call(name=name, args=arguments, id=f"call_{uuid.uuid4().hex}")
        return AIMessage("", tool_calls=[call], response_metadata={"finish_reason": "tool_calls"})

    def _score(self, action: Function, line: str, functions: Sequence[Function]) -> float:
        """Score of an action for a line, in nats: the higher, the better it fits."""
        samples = self.reply_examples
        if action is not REPLY:
            samples = self.examples.get(str(action["name"]), ())
        reply = self._decode(requests.routing(action, samples, line))
        # The engine may end within a character of several bytes.
        if not reply.logprobs or not f'{line}"'.startswith(reply.text.rstrip("�")):
            raise LocalModelError(
                f"The engine broke its grammar: it wrote {reply.text!r} instead of {line!r}. Does "
                "llama.cpp support grammars for the tokenizer of model_path?"
            )
        likelihood = sum(max(score, LEAST_LIKELY) for score in reply.logprobs)
        others = [function for function in functions if function is not action]
        return likelihood + evidence(action, others, line)

    def _decode(self, request: Mapping[str, object]) -> Reply:
        # Temperature 0: the temperature of the prose must not change decisions.
        reply = self.engine.ask({**request, "temperature": 0, "seed": self.seed})
        self.usage = add_usage(self.usage, reply.usage)
        return reply


def openai_tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Tools of any kind in OpenAI's description; refuse tools of a provider's server."""
    functions = []
    for tool in tools:
        try:
            function = convert_to_openai_tool(tool)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"LocalChatModel can't use {tool!r} as a tool: {error} Pass a function with type "
                "hints and a docstring, a BaseTool, a class, or an OpenAI function."
            ) from error
        if function.get("type") != "function":
            raise ValueError(
                f"LocalChatModel can't run the provider tool {function!r}: it has no server to run "
                "it. Pass a function, a tool or a schema."
            )
        functions.append(function)
    return functions


def offered_tools(
    tools: Sequence[object] | None, tool_choice: object
) -> tuple[Sequence[Function], bool]:
    """The functions to offer, and whether a call is forced."""
    functions = [tool["function"] for tool in openai_tools(tools or ())]
    if tool_choice in ("none", False):
        return [], False
    if tool_choice in (None, "auto") or not functions:
        return functions, False
    if tool_choice in ("any", "required", True):
        return functions, True
    choice = tool_choice
    if isinstance(choice, Mapping):
        function = choice.get("function")
        choice = (function if isinstance(function, Mapping) else choice).get("name")
    matches = [function for function in functions if function["name"] == choice]
    if not matches:
        names = ", ".join(str(function["name"]) for function in functions)
        raise ValueError(
            f"tool_choice must be one of {names}, 'auto', 'any', 'required' or 'none', "
            f"got {tool_choice!r}."
        )
    return matches, True


def answered_question(turn: Turn, functions: Sequence[Function]) -> tuple[Function, str] | None:
    """The tool of the last question and the user's messages, if this turn has some of the answer.

    A message without any of the missing arguments has changed the subject.
    """
    question = turn.asked
    if question is None:
        return None
    for function in functions:
        if function["name"] == question["tool"]:
            new_names = set(question["missing"]) - set(missing(function, turn.text))
            return (function, f"{question['text']} {turn.text}") if new_names else None
    return None


def parsed_arguments(text: str, function: Function, message: str) -> dict[str, object]:
    """The arguments of the model; if cut off, the values of the message."""
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = None
    complete = isinstance(arguments, dict) and required(function).keys() <= arguments.keys()
    return arguments if complete else fallback_arguments(function, message)


def ask_back(function: Function, missing: Sequence[str]) -> str:
    """The question for missing arguments of a message."""
    fields = (function.get("parameters") or {}).get("properties") or {}
    names = []
    for name in missing:
        description = str((fields.get(name) or {}).get("description") or "").strip().rstrip(".")
        names.append(f"the {name.replace('_', ' ')}" + (f" ({description})" if description else ""))
    if len(names) == 1:
        return f"What is {names[0]}?"
    return f"What are {', '.join(names[:-1])} and {names[-1]}?"
