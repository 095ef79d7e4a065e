"""The errors that are not problems of a build: for each code its class, and what to do."""

from __future__ import annotations

import re
from typing import Final

_TABLE = """
AF000 agent_factory.AgentFactoryError
    Catch it to catch every error of the library.
AF100 agent_factory.SpecError
    Read `.errors`.
AF130 agent_factory.TopologyFileError
    Write it again, with `to_json()` or `pytest --snapshot-update`; if its version is newer,
    upgrade agent-factory.
AF140 agent_factory.prebuilt.react_errors.ReactArgumentError
    Pass what `.hint` asks for.
AF141 agent_factory.prebuilt.react_errors.ModelTakesNoTools
    Bind them to the chat model inside a chain, or take another model.
AF200 agent_factory.errors.BuildWarning
    Write what the message suggests, or suppress it with `ignore=[code]`.
AF300 agent_factory.TurnError
    Fix what the message names, then run the thread again.
AF301 agent_factory.errors.PathNotSupported
    Define the missing variant, write a flow, or call the agent in the other mode.
AF302 agent_factory.errors.UndeclaredJump
    Decorate the hook with `hook_config(can_jump_to=[...])`.
AF303 agent_factory.errors.JumpWithoutCalls
    Jump to tools only after the model has asked for a tool.
AF304 agent_factory.errors.BadReturn
    Return what the message lists; a layer without a `return` returns None. With `strict=True` a
    change of its copy of the state is a warning.
AF305 agent_factory.errors.CommandNotSupported
    In a layer, use `update` only; in a hook, write `jump_to` and declare it.
AF306 agent_factory.errors.ModelCannotCallTools
    Use a model that supports tool calling, or an agent without tools.
AF307 agent_factory.errors.UnknownTool
    Pass the tool to `create_agent`, or run it in a `wrap_tool_call` or `around_tool` layer.
AF308 agent_factory.HistoryError
    Pass a message, or set a system prompt.
AF309 agent_factory.errors.UnknownStateKey
    Declare the key in the middleware's `state_schema`; give the tool's parameter a default.
AF310 agent_factory.OutputError
    Simplify the schema, describe its fields, or raise `max_retries`; `.ai_message` is the last
    answer.
AF311 agent_factory.errors.StructuredOutputError
    With `handle_errors=True` the error is reported to the model, which tries again.
AF312 agent_factory.errors.MultipleStructuredOutputsError
    As AF311; `.tool_names` names the outputs.
AF313 agent_factory.errors.StructuredOutputValidationError
    As AF311; `.source` is the validation error.
AF314 agent_factory.errors.MissingStructuredOutputError
    As AF311; ask for a structured answer in the system prompt.
AF315 agent_factory.errors.EndlessLoop
    Let the hook jump only if something changed, or add a message that says what to do.
AF316 agent_factory.errors.MissingNode
    Pass `moved={"OldName": "NewName"}` to `create_agent` if a middleware was renamed, or send a new
    message with `review.add_input`; `.nodes` says where the thread waits.
AF317 agent_factory.errors.WrongToolCallId
    Return the content alone, or write the id that the message expects.
AF320 agent_factory.prebuilt.validation_node.NothingToValidate
    Put the node right after the model.
AF321 agent_factory.prebuilt.react_errors.ReactHistoryError
    Answer each tool call, or remove the message with the calls.
AF322 agent_factory.prebuilt.react_errors.ReactPathNotSupported
    Use `ainvoke` or `astream`, or pass a synchronous function.
AF323 agent_factory.errors.UnknownInput
    Write the key that the message names, `Command(resume=...)` to answer, or declare the key in a
    `state_schema`.
AF330 agent_factory.review.ReviewError
    Use a decision that the message lists.
AF331 agent_factory.review.NothingPending
    `pending(agent, config)` shows what is pending; use `invoke` for the next turn.
AF332 agent_factory.review.UnknownCall
    Use an id that the message lists.
AF333 agent_factory.review.DecisionNotAllowed
    Make one that the message lists, or let a person decide whom it names. The rule of the call says
    both: `Rule("refund", "ask", reviewers=["finance"], allowed_decisions=["approve", "reject"])`.
AF334 agent_factory.review.DecideTogether
    Pass `decide` a decision for each call, or name no call.
AF335 agent_factory.review.NoThread
    Build the agent with a checkpointer; pass `{"configurable": {"thread_id": ...}}`;
    start the thread with `invoke`.
AF336 agent_factory.review.InvalidAnswer
    Pass what the message shows; the interrupt can be answered again.
AF337 agent_factory.review.InvalidDecision
    Pass what the message shows; the call can be decided again.
AF340 agent_factory.middleware.ModelCallLimitExceededError
    Raise the limit, or choose `exit_behavior="answer"` or `"end"`.
AF341 agent_factory.middleware.ToolCallLimitExceededError
    Raise the limit, or choose another `exit_behavior`; `.tool_name` is the tool, None for all
    together.
AF342 agent_factory.middleware.BudgetExceededError
    Raise the limit, or choose `exit_behavior="answer"`, `"end"` or `"ask"`; `.reached` says
    what ran out.
AF343 agent_factory.middleware.CallChanged
    Let it pass: HumanInTheLoopMiddleware decides about the changed call, `.request`.
AF344 agent_factory.middleware.PIIDetectionError
    Remove the data, or set the strategy to `"redact"`, `"mask"` or `"hash"`; `.pii_type` and
    `.matches` say what it was.
AF345 agent_factory.middleware.ShellError
    Install what the policy needs, choose another `execution_policy`, or fix the command;
    `.command`, `.exit_code` and `.output` say what happened.
AF346 agent_factory.middleware.ToolSelectionError
    `.answer` is what the choosing model said, `.options` are the tools; use a better model,
    raise `max_retries`, or choose `on_parsing_failure="all"`.
AF347 agent_factory.middleware.ModelRefusalError
    Rephrase or remove the message that was refused, or pass another model; `.refusals` says who
    refused and why.
AF348 agent_factory.middleware.RoutingError
    Return one of `.choices`; `.choice` is what it returned.
AF349 agent_factory.middleware.EffectError
    Give OnceMiddleware a store and the run a `thread_id`; if the store failed, `.__cause__` says
    why.
AF354 agent_factory.middleware.NoProgressError
    Give the model what it lacks; name tools that wait for something in `polling_tools`, and those
    that are repeated for good reason in `ignore_tools`; `.repetition` says what was repeated.
AF355 agent_factory.middleware.UnusableAnswerError
    Allow the model more output tokens, ask for less at once, or choose `on_failure="answer"`;
    `.failed_answers` says what was wrong.
AF359 agent_factory.middleware.UnknownPriceError
    Pass its price, `prices={"name": Price(input=..., output=...)}`.
AF360 agent_factory.service.ServiceError
    Do what the message says.
AF361 agent_factory.service.NotFound
    Check the name or the id; each worker has to add the agent.
AF362 agent_factory.service.ThreadBusy
    Submit the message later, or with another `busy` or `waiting`.
AF363 agent_factory.service.AlreadyDecided
    Nothing: the message says who has decided what.
AF364 agent_factory.service.ClaimedByOther
    Decide about another wait, or when the claim has ended.
AF365 agent_factory.service.RunFailed
    Fix what the message names, then send another message.
AF366 agent_factory.service.RunCancelled
    Submit the message again if it is still wanted.
AF367 agent_factory.service.DatabaseUnavailable
    Try again once it can be reached.
AF368 agent_factory.service.AuditTampered
    Compare entry `.number` with a backup, and find out who could write to the database.
AF369 agent_factory.service.DecisionForbidden
    Let somebody decide to whom `may_decide` allows it. Reviewers of a rule are AF333.
AF370 agent_factory.service.NoWorker
    Start a worker that adds the agent: `agent-factory worker MODULE:SERVICE`.
AF371 agent_factory.service.MessageHeld
    Decide about what the thread waits for, or submit with `waiting="interrupt"`.
AF373 agent_factory.service.ConfigNotAllowed
    Leave the key out, or name it in `Service.add(configurable=...)`.
AF374 agent_factory.service.DatabaseVersionError
    Run `agent-factory upgrade URL`, or install the newer version.
AF378 agent_factory.service.AlreadyExists
    Take another id, or change what is there.
AF379 agent_factory.service.ReadOnly
    Create an assistant for the agent, and change that.
"""

ERROR_CODES: Final = {
    code: (path, " ".join(hint.split()))
    # A code, the path of its class, and the indented lines below them.
    for code, path, hint in re.findall(r"^(AF\d+) (\S+)\n((?: .+\n)+)", _TABLE, re.MULTILINE)
}
"""For each code: where its class is, and what to do."""
