"""An example of each route of the server, for the tests that walk all of them.

A new route needs a line here: the bodies that its clients send, or none. `{thread}`, `{run}` and
the like stand for ids, in paths and in bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route

PUBLIC = {"GET /ok", "GET /info"}
"""What everybody may see."""

RUN: Any = {"assistant_id": "echo", "input": {"messages": [{"role": "user", "content": "Hi"}]}}
ANSWER = {"assistant_id": "desk", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
FORK = {**RUN, "checkpoint_id": "{checkpoint}"}
ON_THREAD = [{**RUN, "if_not_exists": "create"}, ANSWER, FORK]

EXAMPLES: dict[str, list[Any]] = {
    "GET /ok": [None],
    "GET /info": [None],
    "POST /assistants/search": [{}, {"graph_id": "echo"}],
    "POST /assistants/count": [{}],
    "GET /assistants/{assistant}": [None],
    "GET /assistants/{assistant}/graph": [None],
    "GET /assistants/{assistant}/schemas": [None],
    "POST /threads": [{}, {"thread_id": "{thread}", "if_exists": "do_nothing"}],
    "POST /threads/search": [{}, {"ids": ["{thread}"]}, {"metadata": {"topic": "own"}}],
    "POST /threads/count": [{}, {"ids": ["{thread}"]}],
    "GET /threads/{thread}": [None],
    "PATCH /threads/{thread}": [{"metadata": {"topic": "own"}}],
    "DELETE /threads/{thread}": [None],
    "GET /threads/{thread}/state": [None],
    "POST /threads/{thread}/state": [{"values": {"messages": []}}],
    "POST /threads/{thread}/state/checkpoint": [{"checkpoint": {"checkpoint_id": "{checkpoint}"}}],
    "GET /threads/{thread}/state/{checkpoint}": [None],
    "POST /threads/{thread}/history": [{}, {"before": "{checkpoint}"}],
    "GET /threads/{thread}/runs": [None],
    "POST /threads/{thread}/runs": [RUN, *ON_THREAD],
    "POST /threads/{thread}/runs/stream": [RUN, *ON_THREAD],
    "POST /threads/{thread}/runs/wait": [RUN, *ON_THREAD],
    "GET /threads/{thread}/runs/{run}": [None],
    "GET /threads/{thread}/runs/{run}/join": [None],
    "GET /threads/{thread}/runs/{run}/stream": [None],
    "POST /threads/{thread}/runs/{run}/cancel": [None],
    "POST /runs": [RUN],
    "POST /runs/stream": [RUN],
    "POST /runs/wait": [RUN],
}


def examples(app: Starlette) -> Iterator[tuple[str, str, Any]]:
    """The method, the path and the body of each example, those that delete last.

    Raises:
        AssertionError: A route has no example.
    """
    keys = [
        f"{method} {route.path}"
        for route in app.routes
        if isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]
    missing = sorted({*keys} - EXAMPLES.keys())
    assert not missing, f"Add examples of these routes to route_examples.py: {missing}"
    for key in sorted(keys, key=lambda key: key.startswith("DELETE")):
        method, path = key.split()
        for body in EXAMPLES[key]:
            yield method, path, body


def filled(example: Any, ids: Mapping[str, str]) -> Any:
    """An example with ids in place of their names."""
    if isinstance(example, str):
        for name, value in ids.items():
            example = example.replace(f"{{{name}}}", value)
        return example
    if isinstance(example, dict):
        return {key: filled(value, ids) for key, value in example.items()}
    return [filled(one, ids) for one in example] if isinstance(example, list) else example
