"""Say something to an agent while it runs, and stop it, with a saver and without a service.

`sending` puts messages into the mailbox of a thread; `middleware` reads the mailbox.
"""

from agent_factory.middleware._shared.mailbox import STEERING_READ, RunMailbox, mailbox_of_run

from .middleware import SteeringMiddleware, SteeringState, Unread, aunread, unread
from .sending import acancel, afollow_up, asteer, cancel, follow_up, steer

__all__ = [
    "STEERING_READ",
    "RunMailbox",
    "SteeringMiddleware",
    "SteeringState",
    "Unread",
    "acancel",
    "afollow_up",
    "asteer",
    "aunread",
    "cancel",
    "follow_up",
    "mailbox_of_run",
    "steer",
    "unread",
]
