"""The demo: a support desk for a small shop, on a real model, with a real database."""


class DemoError(Exception):
    """The demo cannot go on; its text says why, and what to change."""
