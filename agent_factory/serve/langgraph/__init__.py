"""LangGraph's REST API: what its clients for Python and JavaScript, and their front ends, speak."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.langgraph.assistants import Assistants
from agent_factory.serve.langgraph.commands import Commands
from agent_factory.serve.langgraph.crons import CronRoutes
from agent_factory.serve.langgraph.routing import ApiRoute
from agent_factory.serve.langgraph.runs import Runs
from agent_factory.serve.langgraph.runs import outcome as outcome
from agent_factory.serve.langgraph.store import Store
from agent_factory.serve.langgraph.threads import Threads
from agent_factory.serve.webhooks import Webhooks
from agent_factory.service import Service


def routes(service: Service, webhooks: Webhooks) -> list[Route]:
    """The routes of LangGraph's API."""
    assistants, threads, store = Assistants(service), Threads(service), Store(service)
    runs, crons = Runs(service, webhooks), CronRoutes(service, webhooks)
    commands = Commands(service, runs)
    thread, assistant = "/threads/{thread}", "/assistants/{assistant}"
    run = f"{thread}/runs/{{run}}"
    return [
        *_noun_routes("/assistants", assistant, assistants),
        ApiRoute("POST", f"{assistant}/versions", assistants.versions),
        ApiRoute("POST", f"{assistant}/latest", assistants.set_latest),
        ApiRoute("GET", f"{assistant}/graph", assistants.graph),
        ApiRoute("GET", f"{assistant}/schemas", assistants.schemas),
        ApiRoute("GET", f"{assistant}/subgraphs", assistants.subgraphs),
        ApiRoute("GET", f"{assistant}/subgraphs/{{namespace}}", assistants.subgraphs),
        *_noun_routes("/threads", thread, threads),
        ApiRoute("GET", "/threads", threads.search),
        ApiRoute("POST", "/threads/prune", threads.prune),
        ApiRoute("POST", f"{thread}/copy", threads.copy),
        ApiRoute("GET", f"{thread}/stream", threads.stream),
        ApiRoute("POST", f"{thread}/stream/events", commands.events),
        ApiRoute("POST", f"{thread}/commands", commands.command),
        ApiRoute("GET", f"{thread}/state", threads.state),
        ApiRoute("POST", f"{thread}/state", threads.change_state),
        Route(f"{thread}/state", refuse_state, methods=["PATCH"], include_in_schema=False),
        ApiRoute("POST", f"{thread}/state/checkpoint", threads.state_at),
        ApiRoute("GET", f"{thread}/state/{{checkpoint}}", threads.state),
        ApiRoute("GET", f"{thread}/history", threads.history),
        ApiRoute("POST", f"{thread}/history", threads.history),
        ApiRoute("GET", f"{thread}/runs", runs.search),
        ApiRoute("POST", f"{thread}/runs", runs.create),
        # Before "/runs/{run}", which "crons" would be an id for.
        ApiRoute("POST", f"{thread}/runs/crons", crons.create),
        *_noun_routes("/runs/crons", "/runs/crons/{cron}", crons),
        ApiRoute("POST", f"{thread}/runs/stream", runs.stream),
        ApiRoute("POST", f"{thread}/runs/wait", runs.wait),
        ApiRoute("GET", run, runs.get),
        ApiRoute("DELETE", run, runs.delete),
        ApiRoute("GET", f"{run}/join", runs.join),
        ApiRoute("GET", f"{run}/stream", runs.join_stream),
        ApiRoute("POST", f"{run}/cancel", runs.cancel),
        ApiRoute("POST", "/runs", runs.create),
        ApiRoute("POST", "/runs/batch", runs.create_batch),
        ApiRoute("POST", "/runs/cancel", runs.cancel_many),
        ApiRoute("POST", "/runs/stream", runs.stream),
        ApiRoute("POST", "/runs/wait", runs.wait),
        ApiRoute("GET", "/runs/{run}/stream", runs.join_stream),
        ApiRoute("PUT", "/store/items", store.put),
        ApiRoute("GET", "/store/items", store.get),
        ApiRoute("DELETE", "/store/items", store.delete),
        ApiRoute("POST", "/store/items/search", store.search),
        ApiRoute("POST", "/store/namespaces", store.namespaces),
    ]


async def refuse_state(_: Request) -> Response:
    """Refuse to note metadata about a state: clients note them about threads."""
    text = "Metadata are noted about threads: PATCH the thread."
    raise HTTPException(501, f"This server does not offer that. {text}")


def _noun_routes(path: str, item: str, nouns: Assistants | Threads | CronRoutes) -> list[Route]:
    """The routes that assistants, threads and crons share.

    Args:
        path: The path of all.
        item: The path of one.
    """
    return [
        ApiRoute("POST", path, nouns.create),
        ApiRoute("POST", f"{path}/search", nouns.search),
        ApiRoute("POST", f"{path}/count", nouns.count),
        ApiRoute("GET", item, nouns.get),
        ApiRoute("PATCH", item, nouns.change),
        ApiRoute("DELETE", item, nouns.delete),
    ]
