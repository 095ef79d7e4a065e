"""ChatThread: the thread of a chat client, and what becomes of its next message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from starlette.exceptions import HTTPException

from agent_factory.serve.principal import Principal
from agent_factory.service import NotFound, Run, Service, ThreadInfo, Wait


@dataclass(frozen=True)
class ChatThread:
    """A thread, as it is stored now.

    Args:
        thread: The id of the thread.
        info: The thread; None before its first message.
        values: Its state.
        checkpoint: The id of its newest checkpoint.
    """

    thread: str
    info: ThreadInfo | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: str | None = None

    @classmethod
    def read(cls, service: Service, thread: str, principal: Principal) -> ChatThread:
        """Read a thread. One of another tenant does not exist; `submit` refuses its id."""
        try:
            info = service.threads.get(thread, tenant=principal.tenant)
        except NotFound:
            return cls(thread)
        # A thread without a message has no agent, and so no state that could be read.
        if not info.agent:
            return cls(thread, info)
        state = service.threads.state(thread, tenant=principal.tenant)
        place = state.config["configurable"].get("checkpoint_id")
        return cls(thread, info, state.values, place)

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The messages of the thread."""
        messages: Sequence[BaseMessage] = self.values.get("messages", ())
        return messages

    def waits(self, service: Service) -> list[Wait]:
        """Return the open waits of the thread; none if it did not wait when it was read."""
        if self.info is None or self.info.status != "waiting":
            return []
        return service.inbox(self.info.tenant).waits(thread=self.thread, limit=1000)

    def submit(
        self,
        service: Service,
        agent: str,
        inputs: Mapping[str, object],
        *,
        message_id: str,
        again: str | None,
        principal: Principal,
        **options: Any,
    ) -> Run:
        """Submit what is new.

        If nothing is, it is the last run of the thread: a client has lost its stream.

        Args:
            service: The service.
            agent: The agent.
            inputs: An input of the agent, with the new messages.
            message_id: As `Service.submit` takes it: the same message is the same run.
            again: The same for another try, if nothing is new and the last run has failed or was
                cancelled: it goes on from where it ended. None tries nothing.
            principal: Who submits it.
            options: More for `Service.submit`.

        Raises:
            HTTPException: 422 if nothing is new, and the thread has no run.
        """
        options |= {"tenant": principal.tenant, "by": principal.name}
        if inputs["messages"]:
            return service.submit(
                agent, thread=self.thread, message=inputs, message_id=message_id, **options
            )
        if self.info is None or self.info.run is None:
            raise HTTPException(422, "messages must have a message of the user, got none.")
        last = service.run(self.info.run, tenant=principal.tenant)
        if again is None or last.status not in ("failed", "cancelled"):
            return last
        return service.submit(
            agent, thread=self.thread, checkpoint=self.checkpoint, message_id=again, **options
        )
