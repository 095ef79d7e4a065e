"""Server on 127.0.0.1 with the requests, the rules and the replies of a provider."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import ClassVar, Self
from uuid import uuid4

from agent_factory.testing.providers.replies import ErrorKind, ProviderError, ProviderReply, Step
from agent_factory.testing.providers.rules import RULE, Fault, Json, Rule


@dataclass(frozen=True)
class ProviderRequest:
    """A request as a server got it.

    Args:
        path: The path of the URL, with the query.
        headers: The headers, with names in lower case.
        body: The body.
    """

    path: str
    headers: Mapping[str, str]
    body: Json


@dataclass(frozen=True)
class _Response:
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str]


class ProviderServer:
    """Fake of a provider on 127.0.0.1: it checks each request, and answers with a script.

    Subclasses are the providers. A request that breaks a rule of the provider is in `faults`; a
    strict server refuses it with the error of the provider, and keeps the reply for the next
    request.

    Args:
        replies: The script: replies (`reply`, `cut`, `refusal`, `pause`), errors (`error`), texts,
            or dicts in the form of the provider, which replace fields of the response.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    Raises:
        ValueError: The provider has no such reply.
    """

    rules: ClassVar[Mapping[str, Rule]] = {}
    """The rules of the provider by their names."""

    base_path: ClassVar[str] = ""
    """The path in `url`, as the clients of the provider expect it."""

    endpoints: ClassVar[re.Pattern[str]] = re.compile(".*")
    """The paths of requests for an answer of the model."""

    stream_type: ClassVar[str] = "text/event-stream"
    has_pauses: ClassVar[bool] = False
    """The provider pauses turns: the replies of `pause`."""

    errors: ClassVar[Mapping[ErrorKind, tuple[int, str, str]]] = {}
    """Status, message and code of each error that the provider documents."""

    codes: ClassVar[Mapping[str, str]] = {}
    """Codes of errors by the name of the broken rule, where the provider has several."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {name: getattr(value, RULE, None) for name, value in vars(cls).items()}
        cls.rules = {**cls.rules, **{name: rule for name, rule in own.items() if rule}}

    def __init__(self, replies: Iterable[Step] = (), *, strict: bool = True) -> None:
        self.replies: list[Step] = []
        """The replies that are left."""
        self.requests: list[ProviderRequest] = []
        """The requests, the refused ones included."""
        self.faults: list[Fault] = []
        """The faults of all requests."""
        self.strict = strict
        self._lock = Lock()
        self._length = 0
        self._http: ThreadingHTTPServer | None = None
        self.add(*replies)

    def add(self, *replies: Step) -> None:
        """Add replies to the script.

        Raises:
            ValueError: The provider has no such reply.
        """
        for step in replies:
            if isinstance(step, ProviderReply) and step.ending == "pause" and not self.has_pauses:
                raise ValueError(f"{type(self).__name__} has no pauses: use `reply`.")
        self.replies.extend(replies)
        self._length += len(replies)

    @property
    def url(self) -> str:
        """The base URL for a client of the provider."""
        if self._http is None:
            raise RuntimeError(f"The server is not running: `with {type(self).__name__}() as ...`.")
        return f"http://127.0.0.1:{self._http.server_port}{self.base_path}"

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"provider": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        # The loop looks for the end of the server in these intervals, so a test waits as long.
        Thread(target=self._http.serve_forever, args=(0.005,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    # The form of a provider

    def render(self, answer: ProviderReply, request: Json) -> Json:
        """The body of a response, as the provider sends it whole.

        Args:
            answer: The reply.
            request: The body of the request.
        """
        raise NotImplementedError

    def stream(self, response: Json, request: Json) -> Iterator[bytes]:
        """The pieces of a response, as the provider streams it."""
        raise NotImplementedError

    def streams(self, request: ProviderRequest) -> bool:
        """Return True if the request asks for a stream."""
        return bool(request.body.get("stream"))

    def sign(self, response: Json, request: Json) -> None:
        """Add the signatures of thoughts to a response, in place."""

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        """The body of an error of the provider."""
        raise NotImplementedError

    # Requests

    def receive(self, request: ProviderRequest) -> _Response:
        """Check a request, and take the next reply of the script."""
        with self._lock:
            self.requests.append(request)
            if not self.endpoints.search(request.path):
                return _whole(404, self.error_body(404, f"Unknown URL: POST {request.path}"))
            faults = list(self._check(request))
            self.faults += faults
            refusals = [fault for fault in faults if fault.rule.refused and self.strict]
            if refusals:
                code = self.codes.get(refusals[0].rule.name, "")
                return _whole(400, self.error_body(400, refusals[0].message, code))
            if not self.replies:
                text = f"The script has {self._length} replies, and this is one request more."
                return _whole(400, self.error_body(400, text))
            step = self.replies.pop(0)
            return self._respond(step, request)

    def _check(self, request: ProviderRequest) -> Iterator[Fault]:
        number = len(self.requests)
        for name, rule in self.rules.items():
            try:
                for message in getattr(self, name)(request.body):
                    yield Fault(number, rule, message)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
                # A rule reads the documented fields, so one of them is missing or of another type.
                text = f"Malformed request: {type(problem).__name__}: {problem}"
                yield Fault(number, rule, text)
                return

    def _respond(self, step: Step, request: ProviderRequest) -> _Response:
        if isinstance(step, ProviderError):
            return self._fail(step, request.body)
        if isinstance(step, str):
            step = ProviderReply(step)
        if isinstance(step, ProviderReply):
            response = self.render(step, request.body)
        else:
            response = {**self.render(ProviderReply("."), request.body), **step}
        self.sign(response, request.body)
        if self.streams(request):
            body = b"".join(self.stream(response, request.body))
            return _Response(200, self.stream_type, body, {})
        return _whole(200, response)

    def _fail(self, step: ProviderError, request: Json) -> _Response:
        if isinstance(step.kind, int):
            status, message, code = step.kind, "The request failed.", ""
        else:
            status, message, code = self.errors[step.kind]
            message = message.replace("{model}", str(request.get("model")))
        body = step.body or self.error_body(status, message, code)
        headers = {} if step.retry_after is None else {"retry-after": f"{step.retry_after:g}"}
        return _whole(status, body, **headers)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: ProviderServer

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(raw)
        except ValueError:
            error = self.provider.error_body(400, "The body is not valid JSON.")
            response = _whole(400, error)
        else:
            response = self.provider.receive(ProviderRequest(self.path, headers, body))
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        # Without an open connection, no thread of the server is left at its end.
        self.send_header("Connection", "close")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.body)

    def log_message(self, *_: object) -> None:
        """Write nothing to stderr."""


def _whole(status: int, body: Mapping[str, object], **headers: str) -> _Response:
    return _Response(status, "application/json", json.dumps(body).encode(), headers)


def sse(data: Json | str, event: str = "") -> bytes:
    """An event of a stream of server-sent events."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"{f'event: {event}' + chr(10) if event else ''}data: {text}\n\n".encode()


def pieces(text: str, size: int = 7) -> list[str]:
    """A text in pieces, as a stream sends it."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def token() -> str:
    """Random part of an id."""
    return uuid4().hex[:16]


def digest(value: object) -> str:
    """Digest of a value of JSON. Signatures hold digests, so that each server can check them."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
