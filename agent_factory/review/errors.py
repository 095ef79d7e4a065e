"""Errors of decisions. Each error is raised before any write to the thread."""

from __future__ import annotations

from agent_factory.errors import InvalidAnswer as InvalidAnswer
from agent_factory.errors import ReviewError


class DecisionNotAllowed(ReviewError, ValueError):
    """A decision is not allowed about this call, or not by this person. Another may follow.

    A `Rule` lists the allowed decisions in `allowed_decisions`, and the people in `reviewers`.
    """

    code = "AF333"


class DecideTogether(ReviewError):
    """An interrupt asks about several calls and takes one answer about all of them."""

    code = "AF334"


class InvalidDecision(InvalidAnswer):
    """A part of a decision is unknown, missing, of another type, or does not fit the tool."""

    code = "AF337"
