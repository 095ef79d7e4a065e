"""Cron expressions: the times of schedules."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterBadDateError, croniter

from agent_factory.errors import ArgumentError


def zone_of(name: str | None) -> tzinfo:
    """The time zone of a name; UTC for None.

    Raises:
        ArgumentError: The name is unknown.

    >>> zone_of(None) is UTC, str(zone_of("Europe/Berlin"))
    (True, 'Europe/Berlin')
    """
    try:
        return UTC if name is None else ZoneInfo(name)
    # OSError: of files, where the name is that of a folder, or too long for one.
    except (ZoneInfoNotFoundError, ValueError, TypeError, AttributeError, OSError):
        raise ArgumentError(
            f"the time zone {name!r}", "is not known.", "Take 'Europe/Berlin', for example."
        ) from None


def next_time(cron: str, zone: tzinfo, now: float) -> float | None:
    """The first time of a cron expression after now, in seconds since 1970; None without a time.

    An expression can name a last year, or a day such as February 30.

    Raises:
        ArgumentError: The text is not a cron expression.

    >>> next_time("0 3 * * *", UTC, 0.0) / 3600
    3.0
    >>> print(next_time("0 3 30 2 *", UTC, 0.0))
    None
    """
    try:
        times = croniter(cron, datetime.fromtimestamp(now, zone), second_at_beginning=True)
        following: datetime = times.get_next(datetime)
        return following.timestamp()
    except CroniterBadDateError:
        return None
    except Exception:  # its class depends on the wrong part of the expression
        raise ArgumentError(
            f"the cron expression {cron!r}",
            "cannot be read.",
            "Take '0 3 * * *', for example: at three every night.",
        ) from None
