"""Tool calls for a model that can't write one, from two decisions that it can make.

*Which tool*: the one under which the user's message is most likely (a noisy channel). Asked
"which tool?", a model of this size answers little better than chance. *Which arguments*: one
decode under a grammar of the values in the message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages.ai import UsageMetadata, add_usage

from agent_factory.local_model import grammar, prompts
from agent_factory.local_model.engine import Engine, LocalModelError, Reply, Request
from agent_factory.local_model.messages import Turn
from agent_factory.local_model.options import Offer
from agent_factory.local_model.slots import (
    CODE_WITHOUT_USE,
    Function,
    evidence,
    fallback_arguments,
    has_useless_code,
    headline,
    missing,
    required,
)

LONGEST_ROUTED = 240  # characters of a message that are scored; the request usually comes early
LONGEST_ROUTED_TOKENS = 100
LONGEST_READ = 1500  # characters of a message that arguments are taken from
LONGEST_ARGUMENTS = 320  # tokens
# Least log-likelihood of a token: one odd name would outweigh all other words.
LEAST_LIKELY = -25.0


@dataclass(frozen=True)
class Call:
    """A tool call to make."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Question:
    """A question for missing arguments, to ask instead of calling the tool."""

    function: Function
    missing: tuple[str, ...]
    text: str


class ToolCaller:
    """Decides on the tool call of a turn; `usage` counts the tokens of the decision."""

    def __init__(
        self,
        engine: Engine,
        examples: Mapping[str, Sequence[str]],
        reply_examples: Sequence[str],
        seed: int,
    ) -> None:
        self._engine = engine
        self._examples = examples
        self._reply_examples = reply_examples
        self._seed = seed
        self.usage = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)

    def decide(self, turn: Turn, offer: Offer) -> Call | Question | None:
        """The call to make, the question to ask first, or None to answer in prose."""
        answered = answered_question(turn, offer)
        if answered is not None:
            return self._call(*answered, forced=offer.forced)
        actions: list[Function | None] = list(offer.functions)
        if not offer.forced:
            actions.append(None)
        function, line = actions[0], prompts.one_line(turn.text, LONGEST_ROUTED)
        if len(actions) > 1 and line:
            function = max(actions, key=lambda action: self._score(action, line, offer.functions))
        elif len(actions) > 1 and not offer.forced:
            function = None
        return None if function is None else self._call(function, turn.text, offer.forced)

    def _call(self, function: Function, text: str, forced: bool) -> Call | Question:
        lacking = missing(function, text)
        if lacking and not forced:
            return Question(function, tuple(lacking), text)
        arguments: dict[str, Any] = {}
        if required(function):
            line = prompts.one_line(text, LONGEST_READ)
            reply = self._decode(
                prompts.argument_filling(function, line),
                grammar.arguments(function, line),
                max_tokens=LONGEST_ARGUMENTS,
            )
            arguments = parsed_arguments(reply.text, function, line)
        return Call(str(function["name"]), arguments)

    def _score(self, action: Function | None, line: str, functions: Sequence[Function]) -> float:
        """How well the line fits the action, in nats; None is the action of replying in prose."""
        if action is None:
            prompt = prompts.routing(
                prompts.REPLY_NAME, prompts.REPLY_DESCRIPTION, (), self._reply_examples
            )
        else:
            name = str(action["name"])
            examples = self._examples.get(name, ())
            prompt = prompts.routing(name, headline(action), required(action), examples)
        reply = self._decode(
            prompt,
            grammar.literal(f'{line}"'),
            max_tokens=LONGEST_ROUTED_TOKENS,
            n_probs=1,
        )
        if not reply.logprobs or not f'{line}"'.startswith(reply.text.rstrip("�")):
            raise LocalModelError(
                f"The engine broke its grammar: it wrote {reply.text!r} instead of {line!r}. Does "
                "llama.cpp support grammars for the tokenizer of model_path?"
            )
        likelihood = sum(max(score, LEAST_LIKELY) for score in reply.logprobs)
        if action is None:
            return likelihood + CODE_WITHOUT_USE * has_useless_code({}, line)
        others = [function for function in functions if function is not action]
        return likelihood + evidence(action, others, line)

    def _decode(self, prompt: str, rules: str, **settings: Any) -> Reply:
        # Temperature 0: the temperature of the prose must not change decisions.
        body = {"prompt": prompt, "grammar": rules, "temperature": 0, "seed": self._seed}
        reply = self._engine.ask(Request("completion", {**body, **settings}))
        self.usage = add_usage(self.usage, reply.usage)
        return reply


def answered_question(turn: Turn, offer: Offer) -> tuple[Function, str] | None:
    """The tool of the last question and the user's messages, if this turn has some of the answer.

    A message without any of the missing arguments has changed the subject.
    """
    asked = turn.asked
    function = next((f for f in offer.functions if asked and f["name"] == asked.tool), None)
    if asked is None or function is None:
        return None
    still_missing = set(asked.missing) & set(missing(function, turn.text))
    return (
        None if still_missing == set(asked.missing) else (function, f"{asked.before} {turn.text}")
    )


def parsed_arguments(text: str, function: Function, message: str) -> dict[str, Any]:
    """The arguments that the model wrote; where they are cut off, the values of the message."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return fallback_arguments(function, message)
    complete = isinstance(arguments, dict) and required(function).keys() <= arguments.keys()
    return arguments if complete else fallback_arguments(function, message)
