"""Forks: an answer that is written again, and a message that is edited. Both begin a branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.serve.pages.branches import fork_after, fork_before
from agent_factory.serve.pages.rendering import is_partial
from agent_factory.serve.pages.studio import StudioPages
from agent_factory.service import ThreadInfo


class ForkPages(StudioPages):
    """Answers requests that begin a branch of a thread."""

    def regenerate(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/answers`: another version of an answer.

        With `whole`, it begins after the message of the user, and without just before the answer.
        """
        form, info = request.state.form, self._thread(request)
        at = str(form.get("at", "")) or None
        fork = fork_after if form.get("whole") == "1" else fork_before
        checkpoint = fork(self._service, info.id, str(form.get("message", "")), at)
        self._fork(request, info, None, checkpoint)
        return self._answer(request, at)

    def resend(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/versions`: another version of a message of the user."""
        form = request.state.form
        at, text = str(form.get("at", "")) or None, str(form.get("text", ""))
        message_id = str(form.get("message", ""))
        info = self._thread(request)
        state = self._service.threads.state(info.id, checkpoint=at)
        messages = state.values.get("messages") or ()
        message = next((m for m in messages if m.id == message_id), None)
        if not isinstance(message, HumanMessage):
            raise HTTPException(404, f"There is no message {message_id!r:.80} of the user.")
        blocks = message.content if isinstance(message.content, list) else []
        files = [b for b in blocks if isinstance(b, Mapping) and b.get("type") != "text"]
        words: list[Any] = [{"type": "text", "text": text}] if text.strip() else []
        # A string where there are no files: not each model takes a list of blocks.
        content = [*words, *files] if files else text.strip() and text
        if not content:
            raise HTTPException(422, "The message is empty.")
        checkpoint = fork_before(self._service, info.id, message_id, at)
        self._fork(request, info, HumanMessage(content), checkpoint)
        return self._answer(request, at)

    def _fork(
        self, request: Request, info: ThreadInfo, message: BaseMessage | None, checkpoint: str
    ) -> None:
        self._service.submit(
            info.agent,
            thread=info.id,
            message=message,
            checkpoint=checkpoint,
            tenant=request.state.principal.tenant,
            # A run that has begun meanwhile would be followed by a branch that nobody expects.
            busy="reject",
            waiting="reject" if self._service.waiting(info.agent) == "reject" else "interrupt",
            by=request.state.principal.name,
        )

    def _answer(self, request: Request, at: str | None) -> Response:
        place = f"/studio/threads/{request.path_params['thread']}"
        if not is_partial(request):
            return RedirectResponse(place, status_code=303)
        # The page of another branch has no stream of events.
        if at is not None:
            return Response(status_code=204, headers={"HX-Redirect": place})
        return self.parts(request)
