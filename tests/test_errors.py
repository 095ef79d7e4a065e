"""The tree of errors: each one has a subject, a reason, a hint and a code."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agent_factory import AgentFactoryError, HistoryError, OutputError, SpecError, TurnError, errors
from agent_factory import structured_output as output
from agent_factory.errors import BuildWarning, SpecErrors, describe, raise_all
from tables import each


def _all_classes() -> list[type[AgentFactoryError]]:
    found = {
        value
        for module in (errors, output)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, AgentFactoryError)
    }
    return sorted(found, key=lambda cls: cls.__name__)


ALL = _all_classes()
PLAIN = [cls for cls in ALL if cls.__init__ in (AgentFactoryError.__init__, OutputError.__init__)]

OLD_TYPES = {
    "SpecError": ValueError,
    "ArgumentError": TypeError,
    "DuplicateMiddleware": AssertionError,
    "TurnError": RuntimeError,
    "PathNotSupported": NotImplementedError,
    "HookPathNotSupported": TypeError,
    "BadReturn": TypeError,
    "CommandNotSupported": NotImplementedError,
    "ModelCannotCallTools": NotImplementedError,
    "UnknownTool": ValueError,
    "HistoryError": ValueError,
    "UnknownStateKey": KeyError,
    "UnknownInput": ValueError,
    "UnknownCall": LookupError,
}
"""Where users know another exception type for a mistake, ours derives from it as well."""


@each("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_mistake_is_of_the_build_or_of_the_run_by_type_and_code(
    cls: type[AgentFactoryError],
) -> None:
    assert (cls.__doc__ or "").strip().endswith((".", ")"))
    if cls is AgentFactoryError:
        return
    assert cls.__doc__ != AgentFactoryError.__doc__
    of_build = issubclass(cls, SpecError)
    assert of_build != issubclass(cls, TurnError)
    assert issubclass(cls, ValueError if of_build else RuntimeError)
    assert len(cls.code) == 5
    assert cls.code[2] == ("2" if issubclass(cls, BuildWarning) else "1" if of_build else "3")
    assert cls.code.startswith("AF")


@each("name, known", OLD_TYPES.items())
def test_a_mistake_is_caught_by_the_type_users_know_for_it(
    name: str, known: type[Exception]
) -> None:
    cls = next(cls for cls in ALL if cls.__name__ == name)
    assert issubclass(cls, known)


def test_every_error_class_has_its_own_code() -> None:
    """Only a report of several, and a closer name for one, share the code of their parent."""
    own = {cls.__name__: cls.code for cls in ALL if "code" in vars(cls)}
    assert len(set(own.values())) == len(own)
    assert {cls.__name__ for cls in ALL} - own.keys() == {"SpecErrors", "HookPathNotSupported"}


@each("cls", PLAIN, ids=lambda cls: cls.__name__)
def test_a_message_consists_of_code_subject_reason_and_hint(cls: type[AgentFactoryError]) -> None:
    parts = ("the subject", "cannot work.", "Do this instead.")
    error = cls(*parts)
    assert (error.subject, error.reason, error.hint) == parts
    assert str(error) == f"[{cls.code}] the subject: cannot work. Do this instead."


@each(
    "reason, text",
    [
        ("cannot be read: no such file", "cannot be read: no such file. Write it."),
        ("cannot be read: no such file..", "cannot be read: no such file. Write it."),
        ("cannot be read: and so on...", "cannot be read: and so on... Write it."),
        ("cannot be read: why?", "cannot be read: why? Write it."),
    ],
)
def test_a_reason_is_a_sentence_before_the_hint(reason: str, text: str) -> None:
    """It often ends with the text of another exception, with or without a full stop."""
    assert str(TurnError("it", reason, "Write it.")) == f"[AF300] it: {text}"
    assert str(TurnError("it", "broke.")) == "[AF300] it: broke."


def test_mistakes_of_a_build_arrive_together_and_one_as_itself() -> None:
    raise_all([])
    one, other = SpecError("one", "is wrong."), SpecError("other", "is wrong too.")
    with pytest.raises(SpecError) as alone:
        raise_all([one])
    assert alone.value is one
    assert one.errors == (one,)
    with pytest.raises(SpecErrors) as caught:
        raise_all([one, other])
    assert caught.value.errors == (one, other)
    assert "2 mistakes" in str(caught.value)
    assert all(f"- {error}" in str(caught.value) for error in (one, other))


def test_structured_output_errors_keep_the_contracts_arguments() -> None:
    """The arguments of LangChain: MultipleStructuredOutputsError(tool_names, ai_message)."""
    message = AIMessage("both")
    several = output.MultipleStructuredOutputsError(["One", "Two"], message)
    assert several.tool_names == ["One", "Two"]
    source = ValueError("age: too young")
    invalid = output.StructuredOutputValidationError("Person", source, message)
    assert (invalid.tool_name, invalid.source) == ("Person", source)
    assert "age: too young" in str(invalid)
    retried = OutputError("the model", "would not.", ai_message=message, retries=3)
    assert (retried.ai_message, retried.retries) == (message, 3)
    for error in (several, invalid):
        assert isinstance(error, output.StructuredOutputError)
        assert isinstance(error, OutputError)
        assert error.ai_message is message


class BrokenRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_a_value_is_described_by_its_type_and_a_short_look_at_it() -> None:
    assert [*map(describe, (3, "x", None))] == ["int (3)", "str ('x')", "NoneType (None)"]
    shown = describe("x" * 1000)
    assert len(shown) <= 90
    assert shown.endswith("...)")
    assert "BrokenRepr" in describe(BrokenRepr())


@each("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_mistake_travels_between_processes(cls: type[AgentFactoryError]) -> None:
    """A worker's error must arrive at its parent as what it is."""
    made: dict[str, Any] = {
        "SpecErrors": lambda: SpecErrors([SpecError("a", "b."), HistoryErrorLike]),
        "StructuredOutputError": lambda: output.StructuredOutputError("a", "b.", AIMessage("c")),
        "MultipleStructuredOutputsError": lambda: output.MultipleStructuredOutputsError(
            ["a"], AIMessage("c")
        ),
        "StructuredOutputValidationError": lambda: output.StructuredOutputValidationError(
            "a", ValueError("b"), AIMessage("c")
        ),
        "MissingStructuredOutputError": lambda: output.MissingStructuredOutputError(
            ["a"], AIMessage("c"), "d"
        ),
    }
    error = made.get(cls.__name__, lambda: cls("a", "b.", "c"))()
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is cls
    assert str(back) == str(error)


HistoryErrorLike = SpecError("a", "b.")


def test_a_key_error_shows_its_message_without_quotes() -> None:
    """KeyError alone would show it in quotes."""
    assert str(errors.UnknownStateKey("A", "wrote.")) == "[AF309] A: wrote."
    assert issubclass(HistoryError, TurnError)


def notes(*mistakes: SpecError) -> list[str]:
    with pytest.raises(SpecError) as error:
        raise_all(mistakes)
    copy = pickle.loads(pickle.dumps(error.value))
    found: list[str] = getattr(error.value, "__notes__", [])
    assert getattr(copy, "__notes__", []) == found
    return found


def test_an_error_of_a_build_names_the_command_that_explains_its_code() -> None:
    jump, order = SpecError("A", "is wrong.", code="AF110"), BuildWarning("B", "is.", code="AF204")
    assert notes(jump) == ["An example: agent-factory explain AF110"]
    assert notes(jump, order, jump) == [
        "An example: agent-factory explain AF110",
        "An example: agent-factory explain AF204",
    ]
    assert notes(errors.ArgumentError("`name`", "must be a string.")) == []
