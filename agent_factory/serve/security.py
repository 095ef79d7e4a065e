"""Protection of each route of the server: headers, limits, and the site of a request."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from math import ceil
from threading import Lock
from urllib.parse import parse_qsl

from starlette.datastructures import FormData, Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_factory.errors import ArgumentError
from agent_factory.serve.errors import logger, refusal_response
from agent_factory.state import place_of, text_fault

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; font-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    # With no-referrer, browsers send "Origin: null" with forms of our own pages.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of each response without headers of the same names."""

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_CHANGES = frozenset({"cancel_on_disconnect"})
"""Parameters with which a request of such a method changes something."""

_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 1000
_SPENT_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The most requests a minute, counted over all processes of the server.

    That many may come at once; then they have to come evenly. A stream is one request.

    Args:
        principal: From one principal.
        address: From one address, also without authentication. Of IPv6, a network of 64 bits
            counts as one.

    Raises:
        ArgumentError: A limit is less than 1.

    >>> RateLimit(principal=60)
    RateLimit(principal=60, address=12000)
    """

    principal: int = 6_000
    address: int = 12_000

    def __post_init__(self) -> None:
        for name in ("principal", "address"):
            if getattr(self, name) < 1:
                raise ArgumentError(name, f"must be at least 1, got {getattr(self, name)!r}.")


class RateLimiter:
    """Counts requests by key, together with the other processes of a service.

    A process takes a sixtieth of a minute's requests at a time from the database, and spends them
    within a minute: a limit of 6,000 is one statement for 100 requests. Without the database,
    nothing is counted.

    Args:
        per_minute: The most for each key. None counts nothing.
        take: Counts for all processes, as `Service.take_requests`.
    """

    def __init__(self, kind: str, per_minute: int | None, take: Callable[..., float]) -> None:
        self._kind, self._per_minute, self._take = kind, per_minute, take
        self._block = max(1, (per_minute or 0) // 60)
        # One thread, so that requests at the same moment share a block.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agent-factory-rates")
        self._lock = Lock()
        # By key: how many requests are left and until when, and until when all are refused.
        self._left: dict[Hashable, tuple[int, float]] = {}
        self._refused: dict[Hashable, float] = {}
        self._most_keys = 10_000

    async def check(self, key: Hashable) -> None:
        """Count a request.

        Raises:
            HTTPException: 429 beyond the limit, with `Retry-After`.
        """
        if self._per_minute is not None and not self._spend(key):
            await asyncio.get_running_loop().run_in_executor(self._thread, self._refill, key)

    def _spend(self, key: Hashable) -> bool:
        now = time.monotonic()
        with self._lock:
            if (wait := self._refused.get(key, 0.0) - now) > 0:
                raise self._refusal(wait)
            left, until = self._left.pop(key, (0, 0.0))
            if not left or now >= until:
                return False
            self._left[key] = left - 1, until
            return True

    def _refill(self, key: Hashable) -> None:
        # Perhaps the request before has refilled.
        if self._spend(key):
            return
        assert self._per_minute is not None
        # Apps with different limits count apart.
        name, wait = f"{self._kind} {self._per_minute} {json.dumps(key)}", 0.0
        for number in sorted({self._block, 1}, reverse=True):
            try:
                wait = self._take(name, self._per_minute, number=number)
            except Exception as error:
                # Also of the driver, before the tables are there. Whether the server lives is asked
                # while there is no database, too.
                logger.warning("Requests are not counted: %s", error)
                wait = 0.0
            if not wait:
                break
        now = time.monotonic()
        with self._lock:
            if wait:
                self._refused[key] = now + wait
            else:
                self._left[key] = number - 1, now + _SPENT_WITHIN
            if len(self._left) + len(self._refused) > self._most_keys:
                # The more keys stay, the later the next clean-up.
                self._left = {key: left for key, left in self._left.items() if left[1] > now}
                self._refused = {key: until for key, until in self._refused.items() if until > now}
                self._most_keys = 10_000 + 2 * (len(self._left) + len(self._refused))
        if wait:
            raise self._refusal(wait)

    def _refusal(self, wait: float) -> HTTPException:
        text = f"These are more than {self._per_minute} requests a minute. Try again later."
        return HTTPException(429, text, {"Retry-After": str(ceil(wait))})


def network_of(address: str) -> str:
    """The address by which requests are counted: of IPv6, a host has a network.

    >>> network_of("2001:db8:1:2:3:4:5:6"), network_of("192.0.2.7"), network_of("testclient")
    ('2001:db8:1:2::/64', '192.0.2.7', 'testclient')
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    # A socket for both versions maps addresses of version 4.
    return str(parsed.ipv4_mapped or ip_network((int(parsed) >> 64 << 64, 64)))


class SecurityHeaders:
    """ASGI middleware that adds headers to all responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if "etag" not in headers:  # static files have an etag
                    headers.setdefault("Cache-Control", "no-store")
                if scope["scheme"] == "https":
                    # Browsers ignore this header over http (RFC 6797).
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            await send(message)

        await self._app(scope, receive, send_with_headers)


class RequestGuard:
    """ASGI middleware that refuses requests: too many, too long, or from another site.

    An unhandled error becomes an answer without details, and an entry in the log.

    Args:
        addresses: Counts requests by address.
        origins: Other origins whose pages may make requests, such as "https://chat.example.com".
    """

    def __init__(
        self, app: ASGIApp, addresses: RateLimiter, body_limit: int, origins: Collection[str]
    ) -> None:
        self._app, self._addresses = app, addresses
        self._body_limit, self._origins = body_limit, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        has_started, size = False, 0

        async def receive_within_limit() -> Message:
            nonlocal size
            message = await receive()
            # Content-Length may be absent, or wrong.
            size += len(message.get("body", b""))
            if size > self._body_limit:
                raise HTTPException(413, f"The body has more than {self._body_limit} bytes.")
            return message

        async def note_start(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            # A Unix socket has no address.
            if scope["client"]:
                # Before anything is read or authenticated, which costs more.
                await self._addresses.check(network_of(scope["client"][0]))
            query = QueryParams(scope["query_string"])
            if scope["method"] not in _SAFE_METHODS or not _CHANGES.isdisjoint(query):
                check_site(Headers(scope=scope), self._origins)
            await self._app(scope, receive_within_limit, note_start)
        except ClientDisconnect:
            pass  # nobody reads an answer
        except Exception as error:
            response = refusal_response(Request(scope), error)
            if has_started:
                raise  # the server closes the connection, and the client sees the cut
            await response(scope, receive, send)


def check_site(headers: Headers, origins: Collection[str] = ()) -> None:
    """Refuse a request that a page of another site makes a browser send.

    Browsers name the origin, and pages cannot change the headers: `Sec-Fetch-Site` over https and
    on the own machine, `Origin` everywhere. Other clients send neither.

    Args:
        origins: Other origins whose pages may make requests.

    Raises:
        HTTPException: 403 for a request of another site.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if origin in origins or site in ("same-origin", "none"):
        return
    # Without the scheme: a proxy may end https.
    if site is not None or (
        origin is not None and origin.partition("://")[2] != headers.get("host")
    ):
        raise HTTPException(
            403,
            "This request is from a page of another site. To allow that site, the server needs "
            "--origin.",
        )


async def read_form(request: Request) -> FormData:
    """The fields of a form from a page of this server.

    Raises:
        HTTPException: 403 for a form of another site, see `check_site`. 415 if the body is not a
            form. 422 with more than 1,000 fields, or with a field that no database stores.
    """
    # No other site, also none that may make other requests.
    check_site(request.headers)
    kind = request.headers.get("content-type", "").partition(";")[0]
    # Not `request.form()`, which needs python-multipart.
    text = (await request.body()).decode(errors="replace")
    if text and kind.strip().lower() != _FORM:
        raise HTTPException(415, f"Send a form as {_FORM}, not as {kind!r}.")
    try:
        # With blank values: an emptied argument is not absent.
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HTTPException(422, f"The form has more than {_MOST_FIELDS} fields.") from None
    for name, value in fields:
        if reason := text_fault(name) or text_fault(value):
            raise HTTPException(422, f"{place_of([name])} {reason}")
    return FormData([*fields])
