"""Tool calls of a model that can't write one: two decisions it can make.

*Which tool* is a noisy channel: the tool under which the user's message is most likely wins
(asking "which tool?" outright, a model of this size answers little better than chance). *With
which arguments* is one decode under a grammar that knows what the message offers.
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

LONGEST_ROUTED = 240  # characters of a message that are scored; its gist comes early
LONGEST_ROUTED_TOKENS = 100
LONGEST_READ = 1500  # characters of a message that arguments are taken from
LONGEST_ARGUMENTS = 320  # tokens
# A token's log-likelihood counts no less: one odd name would outweigh all other words.
LEAST_LIKELY = -25.0


@dataclass(frozen=True)
class Call:
    """A tool call to make."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Question:
    """Arguments that the user has to be asked for before the tool can be called."""

    function: Function
    missing: tuple[str, ...]
    said: str


class ToolCaller:
    """Decides on the tool call of one turn; `usage` counts the tokens that this took."""

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
        """The call to make, the question to ask first, or None: answer in words."""
        answered = answered_question(turn, offer)
        if answered is not None:
            return self._call(*answered, forced=offer.forced)
        function = self._route(turn.text, offer)
        return None if function is None else self._call(function, turn.text, offer.forced)

    def _call(self, function: Function, text: str, forced: bool) -> Call | Question:
        lacking = missing(function, text)
        if lacking and not forced:
            return Question(function, tuple(lacking), text)
        return Call(str(function["name"]), self._arguments(function, text))

    def _route(self, text: str, offer: Offer) -> Function | None:
        actions: list[Function | None] = list(offer.functions)
        if not offer.forced:
            actions.append(None)
        if len(actions) == 1:
            return actions[0]
        line = prompts.one_line(text, LONGEST_ROUTED)
        if not line:
            return actions[0] if offer.forced else None
        return max(actions, key=lambda action: self._score(action, line, offer.functions))

    def _score(self, action: Function | None, line: str, functions: Sequence[Function]) -> float:
        """How well the line fits the action, in nats. None is the action of replying in words."""
        reply = self._decode(
            self._routing_prompt(action),
            grammar.literal(f'{line}"'),
            max_tokens=LONGEST_ROUTED_TOKENS,
            n_probs=1,
        )
        if not reply.logprobs or not f'{line}"'.startswith(reply.text.rstrip("�")):
            raise LocalModelError(
                f"The engine did not keep to its grammar: {reply.text!r} in place of {line!r}. "
                "Is the model_path's tokenizer one that llama.cpp supports grammars for?"
            )
        likelihood = sum(max(score, LEAST_LIKELY) for score in reply.logprobs)
        if action is None:
            return likelihood + CODE_WITHOUT_USE * has_useless_code({}, line)
        others = [function for function in functions if function is not action]
        return likelihood + evidence(action, others, line)

    def _routing_prompt(self, action: Function | None) -> str:
        if action is None:
            reply = prompts.REPLY_NAME, prompts.REPLY_DESCRIPTION
            return prompts.routing(*reply, (), self._reply_examples)
        name = str(action["name"])
        return prompts.routing(
            name, headline(action), required(action), self._examples.get(name, ())
        )

    def _arguments(self, function: Function, text: str) -> dict[str, Any]:
        if not required(function):
            return {}
        line = prompts.one_line(text, LONGEST_READ)
        reply = self._decode(
            prompts.argument_filling(function, line),
            grammar.arguments(function, line),
            max_tokens=LONGEST_ARGUMENTS,
        )
        return parsed_arguments(reply.text, function, line)

    def _decode(self, prompt: str, rules: str, **settings: Any) -> Reply:
        # Always the likeliest: a decision shall not change with the temperature of the prose.
        body = {"prompt": prompt, "grammar": rules, "temperature": 0, "seed": self._seed}
        reply = self._engine.ask(Request("completion", {**body, **settings}))
        self.usage = add_usage(self.usage, reply.usage)
        return reply


def answered_question(turn: Turn, offer: Offer) -> tuple[Function, str] | None:
    """The tool that was asked for and all that was said, if this turn has some of the answer.

    Whoever answers with something else has changed the subject, and is not held to the tool.
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
    """The arguments that the model wrote; where they are cut off, what the message offers."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return fallback_arguments(function, message)
    complete = isinstance(arguments, dict) and required(function).keys() <= arguments.keys()
    return arguments if complete else fallback_arguments(function, message)
