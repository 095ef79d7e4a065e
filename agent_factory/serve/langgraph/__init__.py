"""LangGraph's REST API: what its clients for Python and JavaScript, and their front ends, speak."""

from __future__ import annotations

from starlette.routing import Route

from agent_factory.serve.langgraph.assistants import Assistants
from agent_factory.serve.langgraph.crons import CronRoutes
from agent_factory.serve.langgraph.refused import refused_routes
from agent_factory.serve.langgraph.runs import Runs
from agent_factory.serve.langgraph.runs import outcome as outcome
from agent_factory.serve.langgraph.store import Store
from agent_factory.serve.langgraph.threads import Threads
from agent_factory.serve.webhooks import Webhooks
from agent_factory.service import Service


def routes(service: Service, webhooks: Webhooks) -> list[Route]:
    """The routes of LangGraph's API."""
    assistants, store = Assistants(service), Store(service)
    threads, runs = Threads(service, assistants), Runs(service, assistants, webhooks)
    crons = CronRoutes(service, assistants, webhooks)
    thread, run = "/threads/{thread}", "/threads/{thread}/runs/{run}"
    assistant = "/assistants/{assistant}"
    return [
        Route("/assistants", assistants.create, methods=["POST"]),
        Route("/assistants/search", assistants.search, methods=["POST"]),
        Route("/assistants/count", assistants.count, methods=["POST"]),
        Route(assistant, assistants.get),
        Route(assistant, assistants.change, methods=["PATCH"]),
        Route(assistant, assistants.delete, methods=["DELETE"]),
        Route(f"{assistant}/versions", assistants.versions, methods=["POST"]),
        Route(f"{assistant}/latest", assistants.set_latest, methods=["POST"]),
        Route(f"{assistant}/graph", assistants.graph),
        Route(f"{assistant}/schemas", assistants.schemas),
        Route(f"{assistant}/subgraphs", assistants.subgraphs),
        Route(f"{assistant}/subgraphs/{{namespace}}", assistants.subgraphs),
        Route("/threads", threads.list),
        Route("/threads", threads.create, methods=["POST"]),
        Route("/threads/search", threads.search, methods=["POST"]),
        Route("/threads/count", threads.count, methods=["POST"]),
        Route("/threads/prune", threads.prune, methods=["POST"]),
        Route(thread, threads.get),
        Route(thread, threads.change, methods=["PATCH"]),
        Route(thread, threads.delete, methods=["DELETE"]),
        Route(f"{thread}/copy", threads.copy, methods=["POST"]),
        Route(f"{thread}/stream", threads.stream),
        Route(f"{thread}/state", threads.state),
        Route(f"{thread}/state", threads.change_state, methods=["POST"]),
        Route(f"{thread}/state/checkpoint", threads.state_at, methods=["POST"]),
        Route(f"{thread}/state/{{checkpoint}}", threads.state),
        Route(f"{thread}/history", threads.list_history),
        Route(f"{thread}/history", threads.history, methods=["POST"]),
        Route(f"{thread}/runs", runs.search),
        Route(f"{thread}/runs", runs.create, methods=["POST"]),
        # Before "/runs/{run}", which "crons" would be an id for.
        Route(f"{thread}/runs/crons", crons.create, methods=["POST"]),
        Route("/runs/crons", crons.create, methods=["POST"]),
        Route("/runs/crons/search", crons.search, methods=["POST"]),
        Route("/runs/crons/count", crons.count, methods=["POST"]),
        Route("/runs/crons/{cron}", crons.get),
        Route("/runs/crons/{cron}", crons.change, methods=["PATCH"]),
        Route("/runs/crons/{cron}", crons.delete, methods=["DELETE"]),
        Route(f"{thread}/runs/stream", runs.stream, methods=["POST"]),
        Route(f"{thread}/runs/wait", runs.wait, methods=["POST"]),
        Route(run, runs.get),
        Route(run, runs.delete, methods=["DELETE"]),
        Route(f"{run}/join", runs.join),
        Route(f"{run}/stream", runs.join_stream),
        Route(f"{run}/cancel", runs.cancel, methods=["POST"]),
        Route("/runs", runs.create, methods=["POST"]),
        Route("/runs/batch", runs.create_batch, methods=["POST"]),
        Route("/runs/cancel", runs.cancel_many, methods=["POST"]),
        Route("/runs/stream", runs.stream, methods=["POST"]),
        Route("/runs/wait", runs.wait, methods=["POST"]),
        Route("/runs/{run}/stream", runs.join_stream),
        Route("/store/items", store.put, methods=["PUT"]),
        Route("/store/items", store.get),
        Route("/store/items", store.delete, methods=["DELETE"]),
        Route("/store/items/search", store.search, methods=["POST"]),
        Route("/store/namespaces", store.namespaces, methods=["POST"]),
        *refused_routes(),
    ]
