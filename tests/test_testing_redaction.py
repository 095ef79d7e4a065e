"""Secrets that are kept out of cassettes, by the forms in which providers issue them."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path
from random import Random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agent_factory.testing import ScriptedChatModel, record, replay
from tables import each

ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "w": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "c": string.ascii_letters,
    "d": string.digits,
    "h": string.digits + "abcdef",
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
}

FORMS = {
    "anthropic": "sk-ant-api03-<w:93>AA",
    "openai project": "sk-proj-<w:74>T3BlbkFJ<w:74>",
    "openai service account": "sk-svcacct-<w:100>",
    "openai": "sk-<a:48>",
    "openrouter": "sk-or-v1-<h:64>",
    "groq": "gsk_<a:52>",
    "hugging face": "hf_<a:34>",
    "hugging face organization": "api_org_<a:34>",
    "replicate": "r8_<a:37>",
    "xai": "xai-<a:80>",
    "perplexity": "pplx-<a:48>",
    "fireworks": "fw_<a:24>",
    "cerebras": "csk-<l:48>",
    "nvidia": "nvapi-<w:64>",
    "together": "tgp_v1_<w:43>",
    "tavily": "tvly-dev-<a:32>",
    "pinecone": "pcsk_<a:5>_<a:63>",
    "langsmith": "lsv2_pt_<h:32>_<h:10>",
    "langsmith service": "lsv2_sk_<h:32>_<h:10>",
    "databricks": "dapi<h:32>",
    "google api": "AIza<w:35>",
    "google access": "ya29.<w:120>",
    "google refresh": "1//0<w:60>",
    "google client": "GOCSPX-<w:28>",
    "aws access key": "AKIA<u:16>",
    "aws temporary key": "ASIA<u:16>",
    "aws secret key": "aws_secret_access_key = <b:40>",
    "aws secret variable": "AWS_SECRET_ACCESS_KEY=<b:40>",
    "aws bedrock": "ABSK<b:128>",
    "azure storage": "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=<b:86>==;",
    "azure service bus": "SharedAccessKeyName=Root;SharedAccessKey=<b:43>=",
    "azure signature": "https://me.blob.core.windows.net/c?sv=2024-11-04&sr=c&sig=<a:43>%3D",
    "azure client": "<a:3>8Q~<w:34>",
    "github": "ghp_<a:36>",
    "github app": "ghs_<a:36>",
    "github fine-grained": "github_pat_<a:22>_<a:59>",
    "gitlab": "glpat-<w:20>",
    "gitlab runner": "glrt-<w:20>",
    "npm": "npm_<a:36>",
    "pypi": "pypi-AgEIcHlwaS5vcmc<w:150>",
    "docker": "dckr_pat_<w:27>",
    "slack bot": "xoxb-<d:12>-<d:13>-<a:24>",
    "slack user": "xoxp-<d:12>-<d:12>-<d:13>-<h:32>",
    "slack app": "xapp-1-A<u:10>-<d:13>-<h:64>",
    "slack webhook": "https://hooks.slack.com/services/T<u:10>/B<u:10>/<a:24>",
    "stripe": "sk_live_<a:99>",
    "stripe restricted": "rk_live_<a:99>",
    "stripe webhook": "whsec_<a:32>",
    "sendgrid": "SG.<w:22>.<w:43>",
    "twilio": "SK<h:32>",
    "mailgun": "key-<h:32>",
    "mailchimp": "<h:32>-us19",
    "telegram": "<d:10>:AA<w:33>",
    "discord": "M<a:25>.<w:6>.<w:38>",
    "airtable": "pat<a:14>.<h:64>",
    "notion": "ntn_<a:46>",
    "linear": "lin_api_<a:40>",
    "shopify": "shpat_<h:32>",
    "square": "sq0atp-<w:22>",
    "digital ocean": "dop_v1_<h:64>",
    "vault": "hvs.<w:95>",
    "terraform": "<a:14>.atlasv1.<w:67>",
    "grafana": "glsa_<a:32>_<h:8>",
    "new relic": "NRAK-<u:27>",
    "atlassian": "ATATT3xFfGF0<w:180>=<u:8>",
    "supabase": "sbp_<h:40>",
    "planetscale": "pscale_tkn_<w:43>",
    "bearer": "Authorization: Bearer <w:40>",
    "basic": "Authorization: Basic <b:27>=",
    "basic of letters": "authorization: basic <c:24>",
    "basic alone": "Basic <b:13>4<b:13>=",
    "jwt": "eyJ<w:33>.eyJ<w:100>.<w:43>",
    "jwt without signature": "eyJ<w:33>.eyJ<w:100>.",
    "encrypted jwt": "eyJ<w:33>..<w:16>.<w:80>.<w:22>",
    "postgres": "postgres://me:<a:20>@db.example.com:5432/app",
    "redis": "redis://:<a:20>@cache:6379/0",
    "mongodb": "mongodb+srv://me:<a:10>@<a:10>@cluster.mongodb.net/?w=majority",
    "sqlalchemy": "postgresql+psycopg://me:%40<a:20>@db/app",
    "odbc": "Driver={x};Server=db;Uid=me;Pwd=<a:20>;",
    "private key": "-----BEGIN PRIVATE KEY-----\n<b:64>\n<b:60>\n-----END PRIVATE KEY-----",
    "rsa key": "-----BEGIN RSA PRIVATE KEY-----\n<b:64>\n<b:64>\n-----END RSA PRIVATE KEY-----",
    "ssh key": "-----BEGIN OPENSSH PRIVATE KEY-----\\n<b:70>\\n-----END OPENSSH PRIVATE KEY-----",
    "pgp key": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n<b:64>\n-----END PGP PRIVATE KEY",
    "cut key": "-----BEGIN EC PRIVATE KEY-----\n<b:64>\n<b:30>",
}
"""Each form, with `<alphabet:length>` for its random parts. No real key: they are made up here."""


def made_up(form: str) -> tuple[str, list[str]]:
    """A secret of a form, and its random parts."""
    random, parts = Random(form), list[str]()

    def draw(match: re.Match[str]) -> str:
        parts.append("".join(random.choices(ALPHABETS[match[1]], k=int(match[2]))))
        # A hyphen or a slash at an end would not be random: issuers encode whole bytes.
        parts[-1] = re.sub(r"^\W|\W$", "x", parts[-1])
        return parts[-1]

    return re.sub(r"<(\w):(\d+)>", draw, FORMS[form]), [part for part in parts if len(part) > 5]


@each("form", FORMS)
def test_a_secret_of_a_known_form_is_never_written(tmp_path: Path, form: str) -> None:
    secret, parts = made_up(form)
    path = tmp_path / f"{form}.jsonl"
    dumped = json.dumps({"text": f"\n{secret}\n"})  # where \n stands right before the secret
    messages = [
        HumanMessage(f"Use {secret}\nfor it, or ({secret!r})."),
        HumanMessage([{"type": "text", "text": dumped}]),
        ToolMessage(f"KEY={secret}", tool_call_id="1"),
    ]
    call = {"x": [secret]}
    steps: list[Any] = [
        AIMessage(f"It was {secret}\n", tool_calls=[{"name": "use", "args": call, "id": "1"}]),
        ConnectionError(f"refused: {secret}"),
    ]
    model = record(ScriptedChatModel(steps), path)
    model.invoke(messages)
    with pytest.raises(ConnectionError):
        model.invoke(f"{secret} {secret}")
    assert [part for part in parts if part in path.read_text()] == []

    with replay(path) as played:
        answer = played.invoke(messages)
        with pytest.raises(ConnectionError, match=r"^refused: .*\[redacted\]"):
            played.invoke(f"{secret} {secret}")
    assert re.match(r"It was .*\[redacted\]", answer.text)
    assert "[redacted]" in answer.tool_calls[0]["args"]["x"][0]


TEXTS = [
    "A basic introduction, in Basic English; Basic understanding suffices.",
    "https://example.com:8080/a@b?sig=none, http://localhost:8000, mailto:ada@example.com",
    "postgres://db.example.com:5432/app",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b at 2026-11-23T10:00:00+00:00",
    "550e8400-e29b-41d4-a716-446655440000, arn:aws:iam::123456789012:role/reader",
    "hf_model_name_or_path_default = fw_update_controller_handler(npm_package_config_value)",
    "task-force-of-the-ministry, risk-averse-decision-making, desk-research-in-the-archive",
    "def login(user, password=None): return connect(user=user, password=password)",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----",
    "eyJ is how a JWT begins. 1//0 is infinity. SG.1 and SK1, AccountKey=yours",
    "the sk- prefix, AKIA, ghp_, xoxb-, Authorization: none, bearer of news",
    "[redacted] and [secret]",
]


def test_other_texts_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    model = record(ScriptedChatModel(TEXTS), path)
    for text in TEXTS:
        model.invoke(text)
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [line["request"]["messages"][0]["content"] for line in lines] == TEXTS
    assert [line["answer"]["content"] for line in lines] == TEXTS


def test_a_cassette_with_a_secret_that_is_redacted_today_is_still_replayed(tmp_path: Path) -> None:
    """Versions that knew fewer forms wrote it."""
    secret, _ = made_up("groq")
    path = tmp_path / "old.jsonl"
    record(ScriptedChatModel(["Yes."]), path).invoke("Is it SECRET?")
    path.write_text(path.read_text().replace("SECRET", secret))
    assert replay(path).invoke(f"Is it {secret}?").text == "Yes."


def test_a_function_may_write_what_looks_like_a_secret(tmp_path: Path) -> None:
    secret, _ = made_up("groq")
    path = tmp_path / "fake.jsonl"

    def hide(text: str) -> str:
        return text.replace("Ada", secret)

    record(ScriptedChatModel(["Yes."]), path, redact=hide).invoke("Is it Ada?")
    assert secret not in path.read_text()
    assert replay(path, redact=hide).invoke("Is it Ada?").text == "Yes."
