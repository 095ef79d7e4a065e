"""Attachments: the kinds of files in a message that an agent's model takes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

from agent_factory.errors import ArgumentError, describe
from agent_factory.factory import model_of
from agent_factory.service.arguments import check_choice
from agent_factory.types import Graph

Attachment = Literal["image", "pdf", "text"]
"""A kind of file in a message."""


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
