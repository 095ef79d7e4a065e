"""Pages of a history: its moments, a comparison of two of them, and forks from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.serve.pages.comparison import compare
from agent_factory.serve.pages.history import ThreadHistory, id_of, messages_of, time_of
from agent_factory.serve.pages.rendering import Values, is_partial
from agent_factory.serve.pages.studio import StudioPages
from agent_factory.serve.pages.wording import Wording
from agent_factory.serve.principal import LOCAL
from agent_factory.service import ThreadInfo


class HistoryPages(StudioPages):
    """Answers requests about earlier moments of threads, and forks from them."""

    def history(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/history`: the moments, and a comparison of two of them."""
        query, thread = request.query_params, self._thread(request)
        context: Values = {"thread": thread, "moments": [], "at": query.get("at")}
        context |= {"more": None, "columns": "", "newest": "", "comparison": None, "ends": ()}
        if thread.agent not in self._service.agents:
            return context
        history = ThreadHistory(self._service, thread)
        # Without authentication, the reader is the author.
        wording = Wording(thread.agent, "you" if request.state.principal == LOCAL else "the user")
        columns = query.get("columns", "").split(",") if query.get("columns") else []
        moments, columns, more = history.part(wording, query.get("before"), columns)
        context |= {"moments": moments, "columns": ",".join(columns), "more": more}
        checkpoints = [row.checkpoint for row in moments if row.checkpoint]
        if checkpoints:
            context |= {"newest": checkpoints[0], "chosen": (checkpoints[-1], checkpoints[0])}
        if first := query.get("from"):
            states = [history.state(id) for id in (first, query.get("to") or None)]
            # In the order of time, not of the choice.
            states.sort(key=time_of)
            context["comparison"] = compare(states[0].values, states[1].values, thread.agent)
            # Moments further back have a time and no words.
            words = {step.id: row.words for row in moments for step in row.steps}
            context["ends"] = [
                (id_of(state), time_of(state), words.get(id_of(state), "")) for state in states
            ]
            context["chosen"] = [id for id, *_ in context["ends"]]
        return context

    def regenerate(self, request: Request) -> Values | Response:
        """`POST /studio/threads/{thread}/answers`: another version of an answer.

        With `whole`, the branch begins after the message of the user, else just before the answer.
        """
        form, info = request.state.form, self._thread(request)
        at = str(form.get("at", "")) or None
        message, keeps = str(form.get("message", "")), form.get("whole") == "1"
        checkpoint = ThreadHistory(self._service, info).fork(message, at, keeps=keeps)
        self._fork(request, info, None, checkpoint)
        return self._answer(request, at)

    def resend(self, request: Request) -> Values | Response:
        """`POST /studio/threads/{thread}/versions`: another version of a message of the user."""
        form = request.state.form
        at, text = str(form.get("at", "")) or None, str(form.get("text", ""))
        message_id = str(form.get("message", ""))
        info = self._thread(request)
        history = ThreadHistory(self._service, info)
        messages = messages_of(history.state(at))
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
        checkpoint = history.fork(message_id, at, keeps=False)
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
            # Behind a run that has begun meanwhile, nobody expects a branch.
            busy="reject",
            waiting="reject" if self._service.waiting(info.agent) == "reject" else "interrupt",
            by=request.state.principal.name,
        )

    def _answer(self, request: Request, at: str | None) -> Values | Response:
        place = f"/studio/threads/{request.path_params['thread']}"
        if not is_partial(request):
            return RedirectResponse(place, status_code=303)
        # The page of another branch has no stream of events.
        if at is not None:
            return Response(status_code=204, headers={"HX-Redirect": place})
        return self.parts(request)
