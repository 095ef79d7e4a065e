"""The number of crossings: one as `make test` runs them, ten times as many at night."""

from __future__ import annotations

from hypothesis import settings

from service.conftest import new_engine, restate_server, temporal_server  # noqa: F401  fixtures

TIMES = {"test": 1, "night": 10}

settings.register_profile(
    "crossings", settings(), max_examples=180 * TIMES.get(settings.get_current_profile_name(), 50)
)
settings.register_profile(
    "served", settings(), max_examples=20 * TIMES.get(settings.get_current_profile_name(), 50)
)
