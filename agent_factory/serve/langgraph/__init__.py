"""LangGraph's REST API: what its clients for Python and JavaScript, and their front ends, speak."""

from __future__ import annotations

from starlette.routing import Route

from agent_factory.serve.langgraph.agents import Agents
from agent_factory.serve.langgraph.runs import Runs
from agent_factory.serve.langgraph.threads import Threads
from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The routes of LangGraph's API."""
    agents = Agents(service)
    threads, runs = Threads(service), Runs(service, agents)
    thread, run = "/threads/{thread}", "/threads/{thread}/runs/{run}"
    agent = "/assistants/{assistant}"
    return [
        Route("/assistants/search", agents.search, methods=["POST"]),
        Route("/assistants/count", agents.count, methods=["POST"]),
        Route(agent, agents.get),
        Route(f"{agent}/graph", agents.graph),
        Route(f"{agent}/schemas", agents.schemas),
        Route("/threads", threads.create, methods=["POST"]),
        Route("/threads/search", threads.search, methods=["POST"]),
        Route("/threads/count", threads.count, methods=["POST"]),
        Route(thread, threads.get),
        Route(thread, threads.change, methods=["PATCH"]),
        Route(thread, threads.delete, methods=["DELETE"]),
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
        Route("/runs/stream", runs.stream, methods=["POST"]),
        Route("/runs/wait", runs.wait, methods=["POST"]),
    ]
