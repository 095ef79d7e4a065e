"""Each turn of the user's goes to the model that suits it, and stays there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from decision_models import ScriptedDecisionModel
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import Flow, ModelRequest, TurnError, create_agent, wrap_model_call
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, Answer, Gpt, add, last_text, scripted
from tables import each

ADD = [{"name": "add", "args": {"a": 1, "b": 2}}]


def ask(text: str = "Go on") -> Any:
    return {"messages": [HumanMessage(text)]}


def router(
    classifier: Any, quick: Any = None, deep: Any = None, **settings: Any
) -> m.ModelRouterMiddleware:
    choices = {
        "quick": m.ModelChoice(quick or scripted(), "small talk"),
        "deep": m.ModelChoice(deep or scripted(), "mathematics"),
    }
    return m.ModelRouterMiddleware(choices=choices, classifier=classifier, **settings)


def reply(call: Any, *stack: Any, given: Any = None, own: Any = None, tools: Any = ()) -> str:
    """The last text of a new agent, whose model is `own`, with some middleware."""
    return last_text(call(create_agent(own or scripted(), tools, middleware=stack), given or ask()))


async def deeply(request: ModelRequest[Any]) -> str:
    return "deep"


def test_a_turn_goes_to_the_model_that_the_classifier_names(call: Any) -> None:
    classifier = scripted("deep")
    stack = [router(classifier, deep=scripted("42."))]
    agent = create_agent(scripted(), middleware=stack, system_prompt="Secret.")
    assert last_text(call(agent, ask("6 times 7?"))) == "42."
    (request,) = classifier.requests
    system, human = request.messages
    assert isinstance(system, SystemMessage)
    assert "- quick: small talk\n- deep: mathematics" in system.text
    assert human.text == "<conversation>\nUser: 6 times 7?\n</conversation>"


@each("answer", ["deep", " deep\n", "Deep", "'deep'", "**deep**.", "I choose deep: it is hard."])
def test_a_name_is_found_in_what_a_chatty_model_says(call: Any, answer: str) -> None:
    assert reply(call, router(scripted(answer), deep=scripted("42."))) == "42."


@each("answer", ["", "neither", "quick or deep", "deeper", AIMessage([{"type": "thinking"}])])
def test_without_a_named_choice_the_agents_own_model_or_the_default_answers(
    call: Any, answer: Any
) -> None:
    assert reply(call, router(scripted(answer)), own=scripted("Mine.")) == "Mine."
    quick, deep = scripted("Hi."), scripted()
    route = router(scripted(answer), quick, deep, default="quick")
    assert (reply(call, route), route.models) == ("Hi.", {"quick": quick, "deep": deep})


def test_a_choice_whose_name_contains_another_can_be_named_and_needs_no_criteria(call: Any) -> None:
    choices = {
        "deep": m.ModelChoice(scripted(), "a"),
        "deep-math": m.ModelChoice(scripted("42."), "b"),
    }
    classifier = scripted("Use deep-math")
    assert reply(call, m.ModelRouterMiddleware(choices=choices, classifier=classifier)) == "42."
    only = {"a": m.ModelChoice(scripted("Hi."))}
    assert reply(call, m.ModelRouterMiddleware(choices=only, classifier=lambda r: "a")) == "Hi."


# Once for a turn of the user's


def test_a_loop_of_tools_stays_with_one_model(call: Any) -> None:
    for answer in ("deep", "neither"):
        classifier, model = scripted(answer), scripted(ADD, ADD, "Three.")
        deep, own = (model, scripted()) if answer == "deep" else (None, model)
        assert reply(call, router(classifier, deep=deep), own=own, tools=[add]) == "Three."
        classifier.assert_done()
        model.assert_done()
        assert model.requests[0].tools == ["add"]


def test_a_choice_outlives_the_process_and_is_made_again_if_it_no_longer_exists(call: Any) -> None:
    math = {"math": m.ModelChoice(scripted("Three."), "mathematics")}
    for later, text in (
        (router(scripted(), deep=scripted("Done.")), "Done."),
        (m.ModelRouterMiddleware(choices=math, classifier=scripted("math")), "Three."),
    ):
        kept: Any = {"tools": [add], "checkpointer": InMemorySaver()}
        first = router(scripted("deep"), deep=scripted(ADD))
        before = create_agent(scripted(), middleware=[first], interrupt_before=["tools"], **kept)
        call(before, ask(), THREAD)
        after = create_agent(scripted(), middleware=[later], **kept)
        assert last_text(call(after, None, THREAD)) == text


def test_the_choice_is_private_state(call: Any) -> None:
    agent = create_agent(scripted(), middleware=[router(scripted("deep"), deep=scripted("42."))])
    forged = {**ask(), "model_routes": {"ModelRouterMiddleware": {"turn": None, "choice": "quick"}}}
    result = call(agent, forged)
    assert (last_text(result), set(result)) == ("42.", {"messages"})


def test_two_routers_keep_their_choices_apart(call: Any) -> None:
    """The inner one has the last word; each asks its classifier once."""
    outer = router(scripted("quick"), name="outer")
    inner = router(scripted("deep"), deep=scripted(ADD, "Three."), name="inner")
    assert reply(call, outer, inner, tools=[add]) == "Three."


def test_a_message_written_by_middleware_does_not_begin_a_turn(call: Any) -> None:
    """A structured answer that did not fit is explained by a message of the user's kind."""
    deep = scripted("prose", [{"name": "Answer", "args": {"number": 3}}])
    stack = [router(scripted("deep"), deep=deep)]
    agent = create_agent(scripted(), middleware=stack, response_format=Answer)
    assert call(agent, ask())["structured_response"] == Answer(number=3)


def test_a_summary_of_the_user_message_does_not_end_the_turn(call: Any) -> None:
    writer = scripted("They add.", "They add.")
    summaries = m.SummarizationMiddleware(
        writer, trigger=("messages", 3), keep=("messages", 1), keep_thread=False
    )
    stack: list[Any] = [router(scripted("deep"), deep=scripted(ADD, ADD, "Three.")), summaries]
    result = call(create_agent(scripted(), [add], middleware=stack), ask())
    assert last_text(result) == "Three."
    assert result["messages"][0].additional_kwargs["lc_source"] == "summarization"


def test_a_call_that_failed_is_routed_again(call: Any) -> None:
    classifier = scripted("deep", "quick")
    stack = [router(classifier, quick=scripted("Hi."), deep=scripted(ConnectionError("down")))]
    agent = create_agent(scripted(), middleware=stack, checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError, match="down"):
        call(agent, ask(), THREAD)
    assert last_text(call(agent, None, THREAD)) == "Hi."


# Classifiers

BROKEN = ScriptedDecisionModel(answers=[ConnectionError("down")] * 2)


def by_words(request: ModelRequest[Any]) -> str:
    return "deep" if "times" in request.messages[-1].text else "quick"


@each(
    "classifier, text, answer",
    [
        (by_words, "6 times 7?", "42."),
        (by_words, "Hello", "Hi."),
        (RunnableLambda(lambda request: request.messages[-1].text) | (lambda x: x), "deep", "42."),
        (scripted(KeyError()).with_fallbacks([scripted("deep", "deep")]), "Go on", "42."),
        (BROKEN.with_fallbacks([ScriptedDecisionModel(answers=["deep"] * 2)]), "Go on", "42."),
    ],
)
def test_a_function_a_runnable_or_a_model_with_a_fallback_may_choose(
    call: Any, classifier: Any, text: str, answer: str
) -> None:
    route = router(classifier, quick=scripted("Hi."), deep=scripted("42."))
    assert reply(call, route, given=ask(text)) == answer


@each("classifier", [deeply, lambda request: deeply(request)])
def test_an_async_function_may_choose_in_async_runs_alone(classifier: Any) -> None:
    agent = create_agent(scripted(), middleware=[router(classifier, deep=scripted("42."))])
    assert last_text(asyncio.run(agent.ainvoke(ask()))) == "42."
    with pytest.raises(TypeError, match="classifier is a coroutine function"):
        agent.invoke(ask())


@each("wrong", ["Deep", "", None, 5, scripted()])
def test_a_function_that_names_no_choice_raises(call: Any, wrong: Any) -> None:
    agent = create_agent(scripted(), middleware=[router(lambda request: wrong)])
    with pytest.raises(m.RoutingError, match="Return one of 'quick', 'deep'") as caught:
        call(agent, ask())
    error = caught.value
    assert isinstance(error, TurnError)
    assert (error.code, error.choice, error.choices) == ("AF348", wrong, ("quick", "deep"))


def test_an_exception_of_a_classifier_propagates(call: Any) -> None:
    def broken(request: ModelRequest[Any]) -> str:
        raise KeyError("broken")

    for classifier in (broken, scripted(KeyError("broken"))):
        with pytest.raises(KeyError, match="broken"):
            reply(call, router(classifier))


def test_own_instructions_get_the_choices_in_their_place_or_at_the_end(call: Any) -> None:
    prompts = {
        "One of {choices} {!r}, please.": "One of - quick",
        "Choose.": "Choose.\n\nThe choices:",
    }
    for instructions, start in prompts.items():
        classifier = scripted("quick")
        reply(call, router(classifier, quick=scripted("Hi."), instructions=instructions))
        text = classifier.requests[0].messages[0].text
        assert text.startswith(start)
        assert "- deep: mathematics" in text


def test_a_classifier_reads_the_end_of_a_long_conversation(call: Any) -> None:
    classifier = scripted("quick")
    history = [HumanMessage(f"message {n}. " + "x" * 5000) for n in range(20)]
    reply(call, router(classifier, quick=scripted("Hi.")), given={"messages": history})
    text = classifier.requests[0].messages[1].text
    assert "message 14" in text
    assert "message 13" not in text
    assert len(text) < 13_000


def test_tokens_of_a_classifier_and_of_a_model_that_it_asks_are_not_streamed(collect: Any) -> None:
    model = FakeListChatModel(responses=["deep"])
    for classifier in (scripted("deep"), lambda request: model.invoke("?").text):
        stack = [router(classifier, deep=scripted("It is 42."))]
        parts = collect(create_agent(scripted(), middleware=stack), ask(), stream_mode="messages")
        assert "".join(chunk.text for chunk, _ in parts) == "It is 42."


# Models


def test_settings_of_one_provider_do_not_leak_to_the_chosen_model(call: Any) -> None:
    class Claude(ScriptedChatModel):
        model_name: str = "claude-3"

    @wrap_model_call
    def cached(request: ModelRequest[Any]) -> Flow[Any]:
        return (yield request.override(model_settings={"cache_control": {}}))

    quick, deep = Claude(steps=["Hi."]), scripted("42.")
    stack: list[Any] = [cached, router(scripted("deep", "quick"), quick, (deep, {"seed": 1}))]
    agent = create_agent(Claude(steps=[]), middleware=stack, checkpointer=InMemorySaver())
    call(agent, ask(), THREAD)
    call(agent, ask(), THREAD)
    assert deep.requests[0].kwargs == {"seed": 1}
    assert quick.requests[0].kwargs == {"cache_control": {}}


def test_thoughts_of_the_chosen_model_are_not_sent_to_the_agents_own(call: Any) -> None:
    thought = AIMessage([{"type": "thinking", "thinking": "Hm."}, "It is 42."])
    mine = scripted("Gladly.")
    stack = [router(scripted("deep", "neither"), deep=scripted(thought))]
    agent = create_agent(mine, middleware=stack, checkpointer=InMemorySaver())
    call(agent, ask(), THREAD)
    call(agent, ask("Thanks"), THREAD)
    assert mine.requests[0].messages[1].content == "It is 42."


def test_a_choice_has_the_structured_output_that_suits_it(call: Any) -> None:
    by_tool = scripted([{"name": "Answer", "args": {"number": 3}}])
    for model in (Gpt(steps=['{"number": 3}']), by_tool):
        stack = [router(scripted("deep"), deep=model)]
        agent = create_agent(scripted(), [add], middleware=stack, response_format=Answer)
        assert call(agent, ask())["structured_response"] == Answer(number=3)


@each("inside, asked", [(True, 1), (False, 2)])
def test_inside_the_router_a_retry_asks_the_classifier_once(
    call: Any, inside: bool, asked: int
) -> None:
    classifier = scripted(*["deep"] * asked)
    route = router(classifier, deep=scripted(ConnectionError(), "42."))
    retry = m.ModelRetryMiddleware(max_retries=1, initial_delay=0)
    assert reply(call, *([route, retry] if inside else [retry, route])) == "42."
    classifier.assert_done()


# --- decision models ------------------------------------------------------------------------------


def test_a_decision_model_may_decide_and_its_answer_is_kept(call: Any) -> None:
    decisions: list[Any] = []
    classifier = ScriptedDecisionModel(answers=["deep"])
    stack = [router(classifier, deep=scripted(ADD, "3."))]
    options: Any = {"checkpointer": InMemorySaver(), "decisions": decisions.append}
    agent = create_agent(scripted(), [add], middleware=stack, **options)
    assert last_text(call(agent, ask("1 + 2?"), THREAD)) == "3."
    ((state, questions),) = classifier.requests
    assert state.text == "1 + 2?"
    (question,) = questions.values()
    assert question.criteria == {"quick": "small talk", "deep": "mathematics"}
    assert question.instructions == "Which of these models is to answer the message?"
    route = agent.get_state(THREAD).values["model_routes"]["ModelRouterMiddleware"]
    assert (route["choice"], route["answer"]["confidence"]) == ("deep", 0.8)
    assert route["answer"]["probabilities"] == {"deep": 0.9}
    reasons = [d.reason for d in decisions if d.middleware == "ModelRouterMiddleware"]
    assert reasons == ["confidence 0.8", ""]


def test_a_decision_model_reads_the_message_as_layers_further_out_have_made_it(call: Any) -> None:
    classifier = ScriptedDecisionModel(answers=["deep"])
    route = router(classifier, deep=scripted("Hello."))
    reply(call, m.PIIMiddleware("email"), route, given=ask("I am ada@example.org"))
    assert "ada@" not in classifier.requests[0][0].text


def test_without_a_message_of_the_user_a_decision_model_reads_the_conversation(call: Any) -> None:
    summary = HumanMessage("They greeted.", additional_kwargs={"lc_source": "summarization"})
    classifier = ScriptedDecisionModel(answers=["deep"])
    reply(call, router(classifier, deep=scripted("Hello.")), given={"messages": [summary]})
    assert [m.text for m in classifier.requests[0][0]] == ["They greeted."]


@each("answer", ["other", {}])
def test_an_answer_of_a_decision_model_must_name_a_choice(call: Any, answer: Any) -> None:
    agent = create_agent(scripted(), middleware=[router(ScriptedDecisionModel(answers=[answer]))])
    with pytest.raises(m.RoutingError) as caught:
        call(agent, ask())
    assert caught.value.choice == (answer or None)
    assert caught.value.choices == ("quick", "deep")


def test_a_decision_model_needs_no_criteria_and_takes_any_json(call: Any) -> None:
    classifier = ScriptedDecisionModel(answers=["b"])
    choices = {"a": m.ModelChoice(scripted(), {"only": ["x"]}), "b": m.ModelChoice(scripted("B."))}
    asks: Any = {"classifier": classifier, "instructions": ["Which?", {"of": 2}]}
    assert reply(call, m.ModelRouterMiddleware(choices=choices, **asks)) == "B."
    (question,) = classifier.requests[0][1].values()
    assert question.criteria == {"a": {"only": ["x"]}, "b": ""}
    assert question.instructions == ["Which?", {"of": 2}]


def test_a_chat_model_reads_criteria_of_any_form_as_text(call: Any) -> None:
    classifier = scripted("a")
    choices = {"a": m.ModelChoice(scripted("A."), {"only": ["x"]})}
    stack = [m.ModelRouterMiddleware(choices=choices, classifier=classifier)]
    assert last_text(call(create_agent(scripted(), middleware=stack), ask())) == "A."
    assert '- a: {"only": ["x"]}' in classifier.requests[0].messages[0].text
