"""Errors of reviews. Each one is raised before anything is written to the thread."""

from __future__ import annotations

from agent_factory.errors import TurnError


class ReviewError(TurnError):
    """A decision about a paused thread cannot be applied. The thread is unchanged."""

    code = "AF330"


class NothingPending(ReviewError):
    """The thread is not paused, or no tool call in it waits for a decision."""

    code = "AF331"


class UnknownCall(ReviewError, LookupError):
    """No pending call has this id, or several calls are pending and no id was given."""

    code = "AF332"


class DecisionNotAllowed(ReviewError, ValueError):
    """This decision may not be made about this call. It can be made again."""

    code = "AF333"


class DecideTogether(ReviewError):
    """One interrupt asks about several calls and can only be answered for all of them at once."""

    code = "AF334"


class NoThread(ReviewError):
    """The agent has no checkpointer, the config no `thread_id`, or the thread no checkpoint."""

    code = "AF335"


class InvalidAnswer(ReviewError, ValueError):
    """An answer to an interrupt does not have the form that is asked for. It can be given again."""

    code = "AF336"


class InvalidDecision(InvalidAnswer):
    """A decision has a part that is unknown, missing, of another type, or does not fit the tool."""

    code = "AF337"
