#!/usr/bin/env bash
# ragas 0.4.3 with langchain-core 1.8.3 and langchain-community 0.4.1.
#
# `ragas.integrations.langgraph.convert_to_ragas_messages` turns the messages of a run into the sample of an
# evaluation. Expected: the tool calls of an AIMessage are in the sample. Seen: calls in `tool_calls`, where
# LangChain keeps those of each provider, are dropped without a word, and `ToolCallAccuracy` is 0.0 for a run that
# made each call that it should. Only calls in `additional_kwargs["tool_calls"]`, the form of OpenAI's API, arrive.
# With langchain-community 0.4.2, `import ragas` fails.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q ragas==0.4.3 langchain-core==1.8.3 langchain-community==0.4.1 2>/dev/null

cat > calls.py <<'PY'
import warnings

from langchain_core.messages import AIMessage, convert_to_openai_messages
from ragas.integrations.langgraph import convert_to_ragas_messages
from ragas.messages import ToolCall
from ragas.metrics.collections import ToolCallAccuracy

warnings.simplefilter("ignore")
message = AIMessage("", tool_calls=[{"name": "search", "args": {"query": "tea"}, "id": "1"}])
wire = {"tool_calls": convert_to_openai_messages(message)["tool_calls"]}
expected = [ToolCall(name="search", args={"query": "tea"})]
for name, made in (("tool_calls", message), ("additional_kwargs", message.model_copy(update={"additional_kwargs": wire}))):
    sample = convert_to_ragas_messages([made])
    score = ToolCallAccuracy().score(user_input=sample, reference_tool_calls=expected)
    print(f"{name}: {score.value}")
PY
seen=$(venv/bin/python calls.py 2>/dev/null)
echo "$seen"
expected="tool_calls: 0.0
additional_kwargs: 1.0"
[ "$seen" = "$expected" ] || { echo "This has changed; it was:"; echo "$expected"; exit 1; }
