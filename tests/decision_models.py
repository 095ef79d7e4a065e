"""A decision model that follows a script. Test files import it as `decision_models`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.decisions import (
    Answer,
    BaseDecisionModel,
    ChoiceAnswer,
    ClassifierResponse,
    NoulAnswer,
)
from pydantic import PrivateAttr


class ScriptedDecisionModel(BaseDecisionModel):
    """Gives one answer after the other to its only question; exceptions are raised.

    An answer is a probability, the name of a choice, or a dict of answers by the ids of questions.
    """

    model: str = "scripted"
    answers: list[Any]
    _requests: list[tuple[Any, dict[str, Any]]] = PrivateAttr(default_factory=list)

    @property
    def requests(self) -> list[tuple[Any, dict[str, Any]]]:
        """The states and questions so far."""
        return self._requests

    @property
    def _provider(self) -> str:
        return "script"

    def _classify(self, state: Any, questions: dict[str, Any]) -> ClassifierResponse:
        self._requests.append((state, questions))
        answer = self.answers[len(self._requests) - 1]
        if isinstance(answer, Exception):
            raise answer
        answers = answer if isinstance(answer, Mapping) else {next(iter(questions)): read(answer)}
        return ClassifierResponse(model=self.model, answers=dict(answers))


def read(answer: float | str) -> Answer:
    """The answer in the form of langchain-core."""
    if isinstance(answer, str):
        probabilities = {answer: 0.9}
        return ChoiceAnswer(
            type="choice", choice=answer, probabilities=probabilities, confidence=0.8
        )
    return NoulAnswer(type="noul", noul=answer)
