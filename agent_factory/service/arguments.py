"""Arguments of a service, checked."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, get_args

from langgraph.types import StreamMode

from agent_factory.errors import ArgumentError, describe
from agent_factory.factory import model_of
from agent_factory.types import Graph
from agent_factory.upstream import is_reserved

Attachment = Literal["image", "pdf", "text"]
"""A kind of file in a message."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(name: str, value: str | float | None) -> float | None:
    """Seconds, given as a number or as a string like "30m"."""
    if value is None or isinstance(value, int | float):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", value)
    if match is None:
        reason = f"must be seconds or a string like '30m', '4h' or '2d', got {value!r}."
        raise ArgumentError(name, reason)
    return float(match[1]) * _UNITS[match[2]]


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise ArgumentError if a value is not one of the choices."""
    if value not in choices:
        expected = ", ".join(map(repr, choices))
        raise ArgumentError(name, f"must be one of {expected}, got {value!r}.")


def nodes_of(graph: Graph, name: str, nodes: Collection[str] | None) -> list[str] | str | None:
    """Nodes of an agent as JSON: a list, or "*" for all."""
    if nodes is None or nodes == "*":
        return nodes
    several = isinstance(nodes, Collection) and not isinstance(nodes, str)
    names = [*graph.nodes]  # a list, since a wrong name may have no hash
    if missing := [str(node) for node in (nodes if several else [nodes]) if node not in names]:
        reason = f"must name nodes of the agent, got {', '.join(sorted(missing))}."
        raise ArgumentError(name, reason, f"Nodes: {', '.join(sorted(names))}.")
    return [*nodes]


def keys_of(configurable: Collection[str]) -> frozenset[str]:
    """The keys of `configurable` for clients."""
    # A string would be taken for the list of its letters.
    keys = frozenset([configurable] if isinstance(configurable, str) else configurable)
    if isinstance(configurable, str) or any(map(is_reserved, keys)):
        reason = f"must be a list of keys that do not belong to LangGraph, got {configurable!r}."
        hint = 'Pass configurable=["user_tier"], for example.'
        raise ArgumentError("configurable", reason, hint)
    return keys


def check_name(by: object) -> None:
    """Raise ArgumentError unless a value is the name of a person, for the audit."""
    # A name of blanks would name nobody in the audit.
    if not isinstance(by, str) or not by.strip():
        reason = f"must be the name of the one who does this, got {describe(by)}."
        raise ArgumentError("by", reason, "Pass by='ann'.")


def modes_of(stream: object) -> tuple[str, ...]:
    """Modes of a stream, each a mode of LangGraph: another mode would show nothing."""
    if isinstance(stream, str) or not isinstance(stream, Collection):
        reason = f"must be a list of modes, got {describe(stream)}."
        raise ArgumentError("stream", reason, 'Pass stream=["updates"], for example.')
    for mode in stream:
        check_choice("stream", mode, get_args(StreamMode))
    return tuple(stream)


def attachments_of(
    agent: Graph, attachments: Collection[Attachment] | None
) -> frozenset[Attachment]:
    """The kinds of files in messages to an agent.

    None takes the kinds in the profile of the model; none without a profile.
    """
    if isinstance(attachments, str):
        reason = f"must be a list of kinds, got {describe(attachments)}."
        raise ArgumentError("attachments", reason, f"Pass attachments=[{attachments!r}].")
    if attachments is not None:
        for kind in attachments:
            check_choice("attachments", kind, get_args(Attachment))
        return frozenset(attachments)
    try:
        profile = getattr(model_of(agent), "profile", None) or {}
    except ArgumentError:  # another library has built the graph
        return frozenset()
    # No profile says whether a model takes files of text.
    inputs: dict[str, Attachment] = {"image_inputs": "image", "pdf_inputs": "pdf"}
    return frozenset(kind for name, kind in inputs.items() if profile.get(name))
