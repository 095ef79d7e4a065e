"""Errors of decisions. Each one is raised before anything is written to the thread."""

from __future__ import annotations

from agent_factory.errors import InvalidAnswer as InvalidAnswer
from agent_factory.errors import ReviewError


class DecisionNotAllowed(ReviewError, ValueError):
    """This decision may not be made about this call, or not by this person. It can be made again.

    The `allowed_decisions` of a `Rule` say what may be decided, and its `reviewers` by whom.
    """

    code = "AF333"


class DecideTogether(ReviewError):
    """One interrupt asks about several calls and can only be answered for all of them at once."""

    code = "AF334"


class InvalidDecision(InvalidAnswer):
    """A decision has a part that is unknown, missing, of another type, or does not fit the tool."""

    code = "AF337"
