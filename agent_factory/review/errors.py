"""What can be wrong with a decision; the thread is left as it was."""

from __future__ import annotations

from agent_factory.errors import TurnError


class ReviewError(TurnError):
    """A decision about a paused thread cannot be carried out. The thread is as it was."""

    code = "AF330"


class NothingPending(ReviewError):
    """The thread waits for nothing, or for nothing of this kind."""

    code = "AF331"


class UnknownCall(ReviewError, LookupError):
    """No waiting call has this id, or several wait and none was named."""

    code = "AF332"


class DecisionNotAllowed(ReviewError, ValueError):
    """The decision is none that may be made about this call."""

    code = "AF333"


class DecideTogether(ReviewError):
    """Several calls wait in one question, and it can only be answered for all of them at once."""

    code = "AF334"


class NoThread(ReviewError):
    """The agent keeps no threads, or the config names none."""

    code = "AF335"
