"""Paces of services in tests, which look often, or only when a signal comes."""

from __future__ import annotations

from typing import Any

import pytest

from agent_factory.service import Pace

NEVER = 600.0
"""Seconds that no test takes."""

QUICK = Pace(beat=0.05, look=0.05, deliver=0.02, retries=(0.02, 0.02))


def paced(pace: Pace | None = None, **times: Any) -> pytest.MarkDecorator:
    """A mark that sets the pace of the service of a test."""
    return pytest.mark.parametrize("pace", [pace or Pace(**times)], ids=["paced"])
