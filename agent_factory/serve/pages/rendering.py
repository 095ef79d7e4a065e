"""Rendering: templates, and how times, amounts and texts are shown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from langchain_core.messages import ToolMessage
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from agent_factory.serve.errors import refusal_of
from agent_factory.serve.pages.attachments import LIMIT
from agent_factory.serve.pages.conversation import in_one_line
from agent_factory.serve.pages.markdown import leads_elsewhere, markdown
from agent_factory.serve.pages.thread_rows import decider_of
from agent_factory.serve.security import read_form
from agent_factory.topology.render import html, palette

Values = dict[str, Any]
Endpoint = Callable[[Request], Values | Response]

_FOLDER = Path(str(files("agent_factory.serve.pages")))
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def static_files() -> Route:
    """The style, the scripts and nothing else; their addresses change with their content."""

    async def serve(request: Request) -> Response:
        name = request.path_params["name"]
        kind = _KINDS.get(Path(name).suffix)
        if kind is None or (content := _content(name)) is None:
            return Response(status_code=404)
        # Addresses have a hash of the content: see `_asset`.
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, media_type=kind, headers=headers)

    return Route("/static/{name}", serve)


def render(template: str, **values: object) -> Markup:
    """A template, filled in."""
    return Markup(_environment().get_template(template).render(values))


def page(request: Request, template: str, *, status: int = 200, **values: object) -> Response:
    """A page, or a part of one."""
    principal = request.state.principal
    context = {
        "principal": principal,
        "path": request.url.path,
        "doors": request.app.state.doors,
        "is_partial": is_partial(request),
    }
    # A script shows any content; to a browser, another status is an error.
    status = 200 if context["is_partial"] else status
    return HTMLResponse(render(template, **context, **values), status_code=status)


def is_partial(request: Request) -> bool:
    """Return True if a script asks for a part of a page."""
    # htmx sends this header with each request.
    return request.headers.get("hx-request") == "true"


class PageRoute(Route):
    """Route of a page.

    Args:
        endpoint: A function that runs in a thread, and returns the values of the template, or a
            response; `status` is the status. The fields of a form are in `request.state.form`.
            An error becomes a page with a remedy.
        part: The template for a script that asks for a part of the page; None for the same.
    """

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        template: str = "",
        part: str | None = None,
        *,
        method: str = "GET",
    ) -> None:
        def answer(request: Request) -> Response:
            values = endpoint(request)
            if isinstance(values, Response):
                return values
            return page(request, part if part and is_partial(request) else template, **values)

        async def serve(request: Request) -> Response:
            try:
                if method == "POST":
                    request.state.form = await read_form(request)
                return await run_in_threadpool(answer, request)
            # Nobody reads a page: RequestGuard ends the request.
            except ClientDisconnect:
                raise
            except Exception as error:
                status, text = refusal_of(request, error)
            template = "error_part.html" if is_partial(request) else "error.html"
            path, is_missing = request.url.path, status == 404
            # A form is sent to a place below its page.
            back = path if request.method == "GET" else path.rpartition("/")[0]
            context = {"text": text, "is_missing": is_missing, "back": back}
            return page(request, template, status=status, **context)

        super().__init__(path, serve, methods=[method])


FormRoute = partial(PageRoute, method="POST")
"""Route of a form."""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        # An unknown name is an error, not an empty text.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "ago": ago,
        "args": in_one_line,
        "clock": lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC",
        "decider": decider_of,
        "duration": duration,
        "exact": exact,
        "iso": lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds"),
        "left": left,
        "json": pretty,
        "markdown": markdown,
        "number": lambda amount: f"{amount:,}",
        "result": result_text,
        "usd": lambda amount: f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}",
    }
    environment.globals |= {"asset": _asset, "file_limit": LIMIT}
    environment.tests["link"] = leads_elsewhere
    return environment


@cache
def _asset(name: str) -> str:
    """The address of a static file."""
    content = _content(name)
    assert content is not None
    return f"/static/{name}?v={sha256(content).hexdigest()[:12]}"


@cache
def _content(name: str) -> bytes | None:
    """A static file: of this package, or for the page of a plan."""
    texts = {"plan.css": f"{palette.style()}\n{html.themes()}"}
    texts |= {"plan-page.css": html.asset("page.css"), "plan.js": html.asset("page.js")}
    if name in texts:
        return texts[name].encode()
    # By existing names: no request leads to another folder.
    paths = {path.name: path for path in (_FOLDER / "static").iterdir()}
    return paths[name].read_bytes() if name in paths else None


def ago(seconds: float) -> str:
    """Time since a moment, in words; the moment is in seconds since 1970."""
    past = max(0, int(time.time() - seconds))
    return "just now" if past < 5 else f"{duration(past)} ago"


def left(seconds: float) -> str:
    """Time until a moment, in words; the moment is in seconds since 1970."""
    ahead = int(seconds - time.time())
    return f"in {exact(ahead)}" if ahead > 0 else "overdue"


def duration(seconds: float) -> str:
    """A time span in its largest unit.

    >>> duration(7 * 86400)
    '7 d'
    """
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def exact(seconds: float) -> str:
    """A duration with as many digits as mean something.

    >>> [exact(seconds) for seconds in (0.0, 0.0042, 0.38, 4.25, 75, 7380, 180000)]
    ['under 1 ms', '4 ms', '380 ms', '4.2 s', '1 min 15 s', '2 h 3 min', '2 d 2 h']
    """
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{int(seconds)} s"
    for size, unit, part, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} {int(seconds % size // part)} {small}"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def result_text(message: ToolMessage) -> str:
    """The result of a tool as text."""
    text = str(message.text)
    # Only these gain by indentation.
    if text[:1] in ("{", "["):
        with suppress(ValueError):
            return pretty(json.loads(text))
    return text


def pretty(value: object) -> str:
    """A value as JSON for people."""
    if isinstance(value, Mapping) and not value:
        return "{}"
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
