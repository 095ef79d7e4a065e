"""Replies of a fake provider, in a form that all providers have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent_factory.testing.providers.rules import Json

Ending = Literal["stop", "length", "refusal", "pause"]
"""The reason why an answer ends: done or calls, cut, refused, or paused by the provider."""

ErrorKind = Literal["authentication", "not_found", "overflow", "overloaded", "rate_limit"]
"""An error that each provider documents; `overflow` is a conversation that is too long."""


@dataclass(frozen=True)
class Call:
    """A tool call of a reply.

    Args:
        name: The name of the tool.
        args: The arguments.
        id: The id of the call; default: an id in the form of the provider.
    """

    name: str
    args: Mapping[str, object]
    id: str | None = None

    @property
    def json(self) -> str:
        """The arguments as a text of JSON."""
        return json.dumps(dict(self.args))


@dataclass(frozen=True)
class ProviderReply:
    """An answer of the model; see `reply`, `cut`, `refusal` and `pause`."""

    text: str = ""
    thinking: str = ""
    calls: Sequence[Call] = ()
    ending: Ending = "stop"
    usage: tuple[int, int] = (1120, 20)

    def usage_by(self, *names: str) -> dict[str, int]:
        """Input, output and all tokens by the names of a provider."""
        return dict(zip(names, (*self.usage, sum(self.usage)), strict=True))


@dataclass(frozen=True)
class ProviderError:
    """An error instead of an answer; see `error`."""

    kind: ErrorKind | int
    body: Mapping[str, object] | None = None
    retry_after: float | None = None


def reply(
    text: str = "",
    *,
    thinking: str = "",
    calls: Sequence[Mapping[str, object]] = (),
    usage: tuple[int, int] = (1120, 20),
) -> ProviderReply:
    """An answer with a text, a thought, tool calls, or several of these.

    Args:
        text: The text.
        thinking: The thought before the text. The server signs it as the provider does; a provider
            without thoughts leaves it out.
        calls: The tool calls: dicts with `name`, `args` and optionally `id`.
        usage: Input and output tokens.

    >>> from agent_factory.testing.providers import reply
    >>> reply("I look.", calls=[{"name": "look_up", "args": {"city": "Bern"}}]).calls[0].name
    'look_up'
    """
    return ProviderReply(text, thinking, [_call(call) for call in calls], usage=usage)


def _call(call: Mapping[str, object]) -> Call:
    name, args, id_ = call.get("name"), call.get("args", {}), call.get("id")
    unknown = call.keys() - {"name", "args", "id", "type"}
    if not isinstance(name, str) or not isinstance(args, Mapping) or unknown:
        raise ValueError(
            f"Expected a call as {{'name': 'look_up', 'args': {{...}}}}, got {dict(call)!r}."
        )
    return Call(name, json.loads(json.dumps(dict(args))), None if id_ is None else str(id_))


def cut(
    text: str = "", *, thinking: str = "", calls: Sequence[Mapping[str, object]] = ()
) -> ProviderReply:
    """An answer that the limit of output tokens ends.

    The last string of the arguments of the last call lacks its second half. Where the provider
    sends arguments as a text of JSON, the text ends there.

    >>> from agent_factory.testing.providers import cut
    >>> cut(calls=[{"name": "delete", "args": {"path": "/tmp/a"}}]).calls[0].args
    {'path': '/tm'}
    """
    answer = replace(reply(text, thinking=thinking, calls=calls), ending="length")
    if not answer.calls:
        return answer
    *others, last = answer.calls
    names = [name for name, value in last.args.items() if isinstance(value, str)]
    args: dict[str, object] = {}
    for name, value in last.args.items():
        args[name] = value
        if names and name == names[-1]:
            args[name] = str(value)[: len(str(value)) // 2]
            break
    return replace(answer, calls=[*others, replace(last, args=args)])


def cut_json(args: Mapping[str, object]) -> str:
    """The arguments of the last call of `cut` as an unfinished text of JSON."""
    return json.dumps(dict(args)).removesuffix("}").removesuffix('"')


def refusal(text: str = "I can't help with that.", *, thinking: str = "") -> ProviderReply:
    """An answer that the model, or a filter of the provider, refuses.

    Each provider says it in its own form; one without a form for it answers with the text.
    """
    return ProviderReply(text, thinking, ending="refusal")


def pause(text: str = "", *, thinking: str = "") -> ProviderReply:
    """A turn that the provider pauses while its server tools run, as Anthropic's `pause_turn`.

    The client sends the answer back as it came, and the model goes on. Only `AnthropicServer` has
    pauses; the others raise a ValueError.
    """
    return ProviderReply(text, thinking, ending="pause")


def error(
    kind: ErrorKind | int,
    body: Mapping[str, object] | None = None,
    *,
    retry_after: float | None = None,
) -> ProviderError:
    """An error instead of an answer, once.

    Args:
        kind: An error that the provider documents, or a status of HTTP.
        body: The body; default: the documented body of the provider.
        retry_after: Seconds in the header `retry-after`.

    >>> from agent_factory.testing.providers import error
    >>> error("rate_limit", retry_after=2).retry_after
    2
    """
    return ProviderError(kind, body, retry_after)


Step = ProviderReply | ProviderError | Json | str
"""One step of a script: a reply, an error, a text, or a body in the form of the provider."""
