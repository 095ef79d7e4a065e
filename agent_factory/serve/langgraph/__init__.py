"""LangGraph's REST API: what its clients for Python and JavaScript, and their front ends, speak."""

from __future__ import annotations

from starlette.routing import Route

from agent_factory.serve.langgraph.agents import Agents
from agent_factory.serve.langgraph.commands import Commands
from agent_factory.serve.langgraph.refused import refused_routes
from agent_factory.serve.langgraph.runs import Runs
from agent_factory.serve.langgraph.store import Store
from agent_factory.serve.langgraph.threads import Threads
from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The routes of LangGraph's API."""
    agents = Agents(service)
    threads, runs, store = Threads(service, agents), Runs(service, agents), Store(service)
    commands = Commands(service, agents)
    thread, run = "/threads/{thread}", "/threads/{thread}/runs/{run}"
    agent = "/assistants/{assistant}"
    return [
        Route("/assistants/search", agents.search, methods=["POST"]),
        Route("/assistants/count", agents.count, methods=["POST"]),
        Route(agent, agents.get),
        Route(f"{agent}/graph", agents.graph),
        Route(f"{agent}/schemas", agents.schemas),
        Route(f"{agent}/subgraphs", agents.subgraphs),
        Route(f"{agent}/subgraphs/{{namespace}}", agents.subgraphs),
        Route("/threads", threads.create, methods=["POST"]),
        Route("/threads/search", threads.search, methods=["POST"]),
        Route("/threads/count", threads.count, methods=["POST"]),
        Route("/threads/prune", threads.prune, methods=["POST"]),
        Route(thread, threads.get),
        Route(thread, threads.change, methods=["PATCH"]),
        Route(thread, threads.delete, methods=["DELETE"]),
        Route(f"{thread}/copy", threads.copy, methods=["POST"]),
        Route(f"{thread}/stream", threads.stream),
        Route(f"{thread}/stream/events", commands.events, methods=["POST"]),
        Route(f"{thread}/commands", commands.command, methods=["POST"]),
        Route(f"{thread}/state", threads.state),
        Route(f"{thread}/state", threads.change_state, methods=["POST"]),
        Route(f"{thread}/state/checkpoint", threads.state_at, methods=["POST"]),
        Route(f"{thread}/state/{{checkpoint}}", threads.state),
        Route(f"{thread}/history", threads.history, methods=["POST"]),
        Route(f"{thread}/runs", runs.search),
        Route(f"{thread}/runs", runs.create, methods=["POST"]),
        Route(f"{thread}/runs/stream", runs.stream, methods=["POST"]),
        Route(f"{thread}/runs/wait", runs.wait, methods=["POST"]),
        Route(run, runs.get),
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
