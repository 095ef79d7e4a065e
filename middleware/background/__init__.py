"""Work in the background: calls of tools that return at once, and results that arrive as messages.

`jobs` is what a thread knows of its work, `work` does it in this process, `calls` starts it, and
`middleware` reads the results.
"""

from .jobs import BackgroundJob
from .middleware import BackgroundMiddleware, BackgroundState
from .store import JobStore, jobs_of_run

__all__ = [
    "BackgroundJob",
    "BackgroundMiddleware",
    "BackgroundState",
    "JobStore",
    "jobs_of_run",
]
