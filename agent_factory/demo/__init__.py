"""The demo: a support desk for a small shop, on a real model, with a real database."""


class DemoError(Exception):
    """The demo cannot continue; the message says why, and names a change."""
