"""Principal: who makes a request, and whose threads they may see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.service import Wait


@dataclass(frozen=True, slots=True)
class Principal:
    """Person or program that makes a request.

    Args:
        tenant: The tenant whose threads, runs and reviews they see. Threads of other tenants do
            not exist for them.
        name: Their name, for the audit.
        roles: Their roles, in a product's own words.

    >>> Principal(tenant="acme", name="ann")
    Principal(tenant='acme', name='ann', roles=frozenset())
    """

    tenant: str
    name: str
    roles: frozenset[str] = frozenset()


Answer = Principal | Response | None
Authenticate = Callable[[Request], Answer | Awaitable[Answer]]
"""Says who makes a request; None refuses the request, and a response answers in place."""

MayDecide = Callable[[Principal, Wait], bool]
"""Says whether a principal may decide about a wait."""

LOCAL = Principal(tenant="", name="local")
"""Who makes requests from this machine, where nobody authenticates them."""


def local_principal(request: Request) -> Principal:
    """Return the principal of a request from this machine.

    Raises:
        HTTPException: 403 for a request from elsewhere.
    """
    if not is_local(request):
        raise HTTPException(
            403,
            "Only requests from this machine are served. To serve others, the server needs "
            "--authenticate.",
        )
    return LOCAL


def is_local(request: Request) -> bool:
    """Return True if a request comes from this machine, and not by a proxy.

    A page of another site can send a browser to this machine under another name, which is then
    the host of the request: such a request is not local.
    """
    if not _PROXY_HEADERS.isdisjoint(request.headers):
        return False
    # Without an address, as on a Unix socket, nobody is served.
    client = request.client.host if request.client else ""
    for host in (client, request.url.hostname or ""):
        # Other sites can let another name lead here.
        if host == "localhost":
            continue
        try:
            if not ip_address(host.strip("[]")).is_loopback:
                return False
        except ValueError:
            return False
    return True


_PROXY_HEADERS = frozenset({"forwarded", "via", "x-forwarded-for", "x-real-ip"})
"""Headers that proxies add: behind one on this machine, all requests are from this machine."""
