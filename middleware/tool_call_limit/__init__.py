"""Limit the calls of one tool or of all tools, in a run and in a thread.

Calls that have run are counted around the tool. There it is known which calls of a turn were let
through by reviews, guards and other limits, and no jump bypasses it. The run is ended in
`before_model`, when every call of the turn has its result.
"""

from .middleware import (
    ToolCallLimitExceededError,
    ToolCallLimitMiddleware,
    ToolCallLimitState,
)

__all__ = ["ToolCallLimitExceededError", "ToolCallLimitMiddleware", "ToolCallLimitState"]
