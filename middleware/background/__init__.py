"""Work in the background: calls of tools that return at once, and results that arrive as messages.

`jobs` is what a thread knows of its work, `work` does it in this process, `calls` starts it,
`repetition` starts it again elsewhere, and `middleware` reads the results.
"""

from .jobs import BackgroundCall, BackgroundJob
from .middleware import BackgroundMiddleware, BackgroundState
from .repetition import lost_message, repeat_job
from .store import JobStore, jobs_of_run

__all__ = [
    "BackgroundCall",
    "BackgroundJob",
    "BackgroundMiddleware",
    "BackgroundState",
    "JobStore",
    "jobs_of_run",
    "lost_message",
    "repeat_job",
]
