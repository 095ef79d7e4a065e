"""Work in the background: calls of tools that return at once, with results as later messages."""

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
