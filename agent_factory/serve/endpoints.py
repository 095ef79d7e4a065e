"""Endpoints: functions that answer requests about a service, each for the tenant of its request."""

from __future__ import annotations

from starlette.requests import Request

from agent_factory.service import Assistant, Inbox, NotFound, Run, Service, ThreadInfo


class Endpoints:
    """Answers requests about the nouns of a service. Those of other tenants do not exist."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def _thread(self, request: Request) -> ThreadInfo:
        """The thread in the path of a request."""
        tenant = request.state.principal.tenant
        return self._service.threads.get(request.path_params["thread"], tenant=tenant)

    def _run(self, request: Request) -> Run:
        """The run in the path of a request, of the thread there, if the path names one."""
        tenant = request.state.principal.tenant
        run = self._service.run(request.path_params["run"], tenant=tenant)
        check_thread(run, request.path_params.get("thread", run.thread_id))
        return run

    def _assistant(self, request: Request, name: str) -> Assistant:
        """An assistant, by its id or the name of an agent."""
        return self._service.assistants(request.state.principal.tenant).get(name)

    def _inbox(self, request: Request) -> Inbox:
        """The waits for a decision, about which the principal of a request may decide."""
        tenant, may_decide = request.state.principal.tenant, request.state.may_decide
        return self._service.inbox(tenant, may_decide=may_decide)


def check_thread(run: Run, thread: str) -> None:
    """Raise NotFound unless a run is one of a thread."""
    if run.thread_id != thread:
        raise NotFound(f"run {run.id!r}", f"is not one of thread {thread!r}.")
