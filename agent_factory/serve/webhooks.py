"""Webhooks: servers that may get the outcome of a run, and the signed requests to them."""

from __future__ import annotations

import asyncio
import hmac
import re
import socket
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx
from starlette.exceptions import HTTPException

from agent_factory.errors import ArgumentError
from agent_factory.serve.json_response import to_json
from agent_factory.service import UndeliverableError, Webhook

DEADLINE_SECONDS = 10.0
"""The longest time of a request and its answer: much less than a claim of the service."""

_ORIGIN = re.compile(r"https?://(\*\.)?[\w.-]+(:\d+)?|https?://\[[\da-fA-F:.]+\](:\d+)?")
_PORTS = {"http": 80, "https": 443}
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Servers of webhooks, and the signature of requests.

    Args:
        origins: The servers, such as "https://hooks.example.com", or "https://*.example.com" for
            all below a domain.
        secret: Signs each request, as standardwebhooks.com says; a text, or "whsec_" and base64.
        private: Whether addresses that are not public are allowed: of this machine, of the link
            and of private networks.

    Raises:
        ArgumentError: `origins` is not a list of origins.

    >>> hooks = Webhooks(["https://*.example.com"])
    >>> hooks.allows("https://a.example.com/done"), hooks.allows("https://example.com.evil.org/")
    (True, False)
    """

    origins: Collection[str] = ()
    secret: str | None = None
    private: bool = False

    def __post_init__(self) -> None:
        # A string is a list of letters.
        if isinstance(self.origins, str) or not all(map(_ORIGIN.fullmatch, self.origins)):
            raise ArgumentError(
                "webhooks",
                f"must be a list of origins, got {self.origins!r}.",
                "Pass webhooks=['https://hooks.example.com'].",
            )

    def allows(self, url: str) -> bool:
        """True if a URL is of an allowed origin."""
        try:
            target = urlsplit(url)
            # An origin has neither a user nor a password.
            if target.username is not None or target.password is not None:
                return False
            host, place = target.hostname or "", (target.scheme, _port(target))
            for origin in map(urlsplit, self.origins):
                name = origin.hostname or ""
                fits = host.endswith(name[1:]) if name.startswith("*.") else host == name
                if fits and place == (origin.scheme, _port(origin)):
                    return True
        except ValueError:  # such as a port without a number
            pass
        return False

    def check(self, url: str) -> None:
        """Raise HTTPException if the outcome of a run may not be sent to a URL."""
        if not self.origins:
            raise HTTPException(422, "webhook: this server sends none. Leave it out.")
        if not self.allows(url):
            text = "may name only the servers that this server allows"
            raise HTTPException(422, f"webhook: {text}, got {url!r:.200}.")
        try:
            # Checked now for the client, and again when the outcome is sent.
            self.address(url)
        except UndeliverableError as error:
            raise HTTPException(422, f"webhook: {error}.") from error
        except OSError as error:
            raise HTTPException(422, f"webhook: the host of {url!r:.200} is not known.") from error

    def address(self, url: str) -> str:
        """The address of the host of a URL, to which a request may connect.

        Raises:
            UndeliverableError: One of the addresses is not public.
            OSError: The host is not known.
        """
        parts = urlsplit(url)
        found = socket.getaddrinfo(parts.hostname, _port(parts), type=socket.SOCK_STREAM)
        addresses = [str(place[4][0]) for place in found]
        for address in addresses:
            if not self.private and not _is_public(ip_address(address.partition("%")[0])):
                raise UndeliverableError(f"the host {parts.hostname!r} has no public address")
        return addresses[0]

    def sender(self, payload: Callable[[Webhook], object]) -> Callable[[Webhook], None]:
        """A function that sends the outcome of a run, written by `payload`."""

        def send(webhook: Webhook) -> None:
            if not self.allows(webhook.url):
                raise UndeliverableError("this server does not allow it any more")
            self.post(webhook.url, webhook.id, to_json(payload(webhook)).encode())

        return send

    def post(self, url: str, id: str, body: bytes) -> None:
        """Send a body to a URL.

        Raises:
            UndeliverableError: The address is not allowed, or the answer refuses the request.
            TimeoutError: The request and its answer take longer than DEADLINE_SECONDS.
            Exception: Another attempt may help.
        """
        # Resolved once: the request connects to the checked address.
        parts, address = urlsplit(url), self.address(url)
        host = f"[{address}]" if ":" in address else address
        target = parts._replace(netloc=f"{host}:{_port(parts)}", fragment="").geturl()
        netloc = parts.netloc.rpartition("@")[2]
        headers = {"Host": netloc, "Content-Type": "application/json", **self._signature(id, body)}
        try:
            # The certificate is for the host, not for the address.
            extensions = {"sni_hostname": parts.hostname}
            sent = _status(target, content=body, headers=headers, extensions=extensions)
            status = asyncio.run(sent)
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {DEADLINE_SECONDS:g} seconds") from error
        if 200 <= status < 300:
            return
        # These three ask the sender to come again: timeout, too early, too many.
        if 300 <= status < 500 and status not in (408, 425, 429):
            raise UndeliverableError(f"the answer is {status}")
        raise RuntimeError(f"the answer is {status}")

    def _signature(self, id: str, body: bytes) -> dict[str, str]:
        now = str(int(time.time()))
        headers = {"webhook-id": id, "webhook-timestamp": now}
        if self.secret is not None:
            is_encoded = self.secret.startswith("whsec_")
            key = b64decode(self.secret[6:]) if is_encoded else self.secret.encode()
            content = f"{id}.{now}.".encode() + body
            digest = hmac.new(key, content, sha256).digest()
            headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"
        return headers


async def _status(url: str, **request: Any) -> int:
    """Post a request, and read the status of the answer, within the deadline."""
    async with (
        # For all reads together: each byte of an answer would begin a timeout of httpx again.
        asyncio.timeout(DEADLINE_SECONDS),
        # No proxy, which would resolve the host again, and no redirect.
        httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None) as client,
        client.stream("POST", url, **request) as response,
    ):
        return response.status_code  # the body, which may have no end, is not read


def _port(url: SplitResult) -> int:
    return url.port or _PORTS.get(url.scheme, 0)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        # Addresses of version 6 that lead to version 4.
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
    return address.is_global and not address.is_multicast
