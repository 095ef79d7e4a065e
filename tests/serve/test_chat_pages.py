"""The chat of the studio over plain HTTP: versions of messages, files, state and breakpoints."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import unescape
from html.parser import HTMLParser
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.testclient import TestClient
from web.chat_desk import HELD, INPUTS, MARKDOWN, add_chat, bookings, go_on

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.serve import Principal, create_app
from agent_factory.serve.pages.attachments import LIMIT, File
from agent_factory.serve.pages.branches import Branch, versions_of
from agent_factory.serve.pages.markdown import markdown
from agent_factory.service import NotFound, Service
from agent_factory.testing import ScriptedChatModel

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path_factory.mktemp('chat')}/desk.db") as made:
        add_chat(made)
        yield made


@pytest.fixture
def client(service: Service) -> TestClient:
    return client_of(service, "acme")


@pytest.fixture
def thread() -> str:
    """The id of a new thread."""
    return uuid4().hex


def client_of(service: Service, tenant: str) -> TestClient:
    def who(_: Request) -> Principal:
        return Principal(tenant, "ann")

    return TestClient(create_app(service, who))


def say(service: Service, thread: str, message: str, agent: str = "chat") -> None:
    service.submit(agent, thread=thread, message=message, tenant="acme").result(30)


def messages(service: Service, thread: str) -> list[Any]:
    """The messages of a thread once its run has ended or paused."""
    service.run(str(service.threads.get(thread).run)).result(30)
    return list(service.threads.state(thread).values["messages"])


def texts(service: Service, thread: str) -> list[str]:
    return [str(message.text) for message in messages(service, thread)]


def send(client: TestClient, thread: str, route: str, **fields: Any) -> Any:
    """Send a form of the page of a thread, with its token."""
    shown = client.get(f"/studio/threads/{thread}").text
    token = re.findall(r'name="csrf_token" value="([^"]+)"', shown)[0]
    path = f"/studio/threads/{thread}/{route}"
    return client.post(path, data={"csrf_token": token, **fields})


def at_of(page: str) -> str:
    """The checkpoint that a page links to as the version before."""
    (at,) = re.findall(r'\?at=([\w-]+)" aria-label="The version before"', page)
    return str(at)


# Versions


def test_an_answer_that_is_regenerated_keeps_its_other_version(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "Hello")
    answer = messages(service, thread)[-1]
    assert send(client, thread, "answers", message=answer.id).status_code == 200
    assert texts(service, thread) == ["Hello", "Answer 2 to 'Hello' with text"]
    shown = client.get(f"/studio/threads/{thread}").text
    assert "2/2" in shown
    assert "Answer 1 to" not in shown
    earlier = client.get(f"/studio/threads/{thread}?at={at_of(shown)}").text
    assert "1/2" in earlier
    assert "Answer 1 to" in unescape(earlier)
    assert "You see another branch of this thread" in earlier


def test_a_message_in_another_branch_goes_on_from_it(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "Hello")
    send(client, thread, "answers", message=messages(service, thread)[-1].id)
    messages(service, thread)
    at = at_of(client.get(f"/studio/threads/{thread}").text)
    send(client, thread, "messages", text="And then?", checkpoint=at)
    first, second, *rest = texts(service, thread)
    assert (first, second) == ("Hello", "Answer 1 to 'Hello' with text")
    assert rest[0] == "And then?"
    assert "1/2" in client.get(f"/studio/threads/{thread}").text


def test_an_edited_message_begins_a_branch(
    service: Service, client: TestClient, thread: str
) -> None:
    for text in ("one", "two"):
        say(service, thread, text)
    first, _, third, _ = messages(service, thread)
    send(client, thread, "versions", message=third.id, text="TWO")
    assert texts(service, thread)[2:] == ["TWO", "Answer 3 to 'TWO' with text"]
    send(client, thread, "versions", message=first.id, text="ONE")
    assert texts(service, thread) == ["ONE", "Answer 4 to 'ONE' with text"]
    shown = client.get(f"/studio/threads/{thread}").text
    assert "2/2" in shown
    # The newest branch of the other version of the first message.
    earlier = client.get(f"/studio/threads/{thread}?at={at_of(shown)}").text
    assert "TWO" in earlier
    assert len(service.threads.branches(thread)) == 3


def test_an_edited_message_keeps_its_files(
    service: Service, client: TestClient, thread: str
) -> None:
    file = f"data:image/png;base64,{b64encode(PNG).decode()}"
    service.threads.create(thread, tenant="acme", agent="chat")
    send(client, thread, "messages", text="Look", file=file, file_name="lamp.png")
    message = messages(service, thread)[0]
    send(client, thread, "versions", message=message.id, text="Look again")
    edited = messages(service, thread)[0]
    assert [block["type"] for block in edited.content_blocks] == ["text", "image"]
    assert edited.text == "Look again"


def test_an_answer_alone_runs_no_call_again_and_the_whole_does(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, f"book {thread}")
    question, _, _, answer = messages(service, thread)
    shown = client.get(f"/studio/threads/{thread}").text
    form = shown.partition('aria-label="Regenerate this answer"')[2].partition("</details>")[0]
    alone, _, whole = form.partition('name="whole"')
    assert "do not run again" in alone
    assert "these calls run again" in whole
    assert f'<code>book</code> <span class="args">lamp=&#39;{thread}&#39;' in whole
    send(client, thread, "answers", message=answer.id)
    assert texts(service, thread)[-1] == f"Answer 3: Booked {thread}."
    assert bookings.count(thread) == 1
    send(client, thread, "answers", message=question.id, whole="1")
    assert texts(service, thread)[-1] == f"Answer 5: Booked {thread}."
    assert bookings.count(thread) == 2


def test_an_edit_says_which_calls_have_run(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "Hello")
    shown = client.get(f"/studio/threads/{thread}").text
    assert "These calls have run" not in shown
    say(service, thread, f"book {thread}")
    shown = client.get(f"/studio/threads/{thread}").text
    # At both messages of the user: the call comes after each of them.
    assert shown.count("These calls have run") == 2


def test_a_branch_withdraws_the_question_and_says_so(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "refund it")
    (wait,) = service.inbox("acme").waits(thread=thread)
    assert "its call does not run" in client.get(f"/studio/threads/{thread}").text
    question = messages(service, thread)[0]
    send(client, thread, "versions", message=question.id, text="Hello")
    assert texts(service, thread) == ["Hello", "Answer 2 to 'Hello' with text"]
    assert service.inbox("acme").get(wait.id).decision == {"type": "cancel"}


def test_a_call_that_was_approved_is_reviewed_again_in_another_branch(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "refund it")
    (wait,) = service.inbox("acme").waits(thread=thread)
    service.decide(wait.id, "approve", by="olga", tenant="acme").result(30)
    question = messages(service, thread)[0]
    send(client, thread, "answers", message=question.id, whole="1")
    messages(service, thread)
    assert service.threads.get(thread).status == "waiting"


def test_no_branch_begins_while_a_run_works(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "Hello")
    question, answer = messages(service, thread)
    go_on.clear()
    run = service.submit("chat", thread=thread, message=HELD, tenant="acme")
    shown = client.get(f"/studio/threads/{thread}").text
    assert "Regenerate" not in shown
    assert "Edit and send again" not in shown
    for route, message in (("answers", answer), ("versions", question)):
        refused = send(client, thread, route, message=message.id, text="x")
        assert refused.status_code == 409
    go_on.set()
    run.result(30)


def test_a_thread_that_takes_no_message_before_the_decision_begins_no_branch(
    tmp_path: Any, thread: str
) -> None:
    with Service(f"sqlite:///{tmp_path}/desk.db") as service:
        add_chat(service)
        service.add("strict", service.agents["chat"], waiting="reject")
        say(service, thread, "refund it", agent="strict")
        client, question = client_of(service, "acme"), messages(service, thread)[0]
        assert "Edit and send again" not in client.get(f"/studio/threads/{thread}").text
        refused = send(client, thread, "versions", message=question.id, text="Hello")
        assert refused.status_code == 409


def test_a_page_shows_the_branch_before_its_run_has_begun(
    service: Service, thread: str, tmp_path: Any
) -> None:
    url = f"sqlite:///{tmp_path}/desk.db"
    with Service(url) as worker:
        add_chat(worker)
        say(worker, thread, "Hello")
        answer = messages(worker, thread)[-1]
    idle = Service(url)
    add_chat(idle)
    client = client_of(idle, "acme")
    send(client, thread, "answers", message=answer.id)
    shown = client.get(f"/studio/threads/{thread}").text
    idle.close()
    conversation = shown.partition('id="conversation"')[2].partition('id="waits"')[0]
    assert "Hello" in conversation
    assert "Answer 1 to" not in conversation


@pytest.mark.long
def test_only_messages_of_the_branch_can_be_replaced(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "Hello")
    question, answer = messages(service, thread)
    assert send(client, thread, "answers", message="none").status_code == 404
    assert send(client, thread, "answers", message="none", whole="1").status_code == 404
    assert send(client, thread, "versions", message=answer.id, text="x").status_code == 404
    assert send(client, thread, "versions", message=question.id, text=" ").status_code == 422


def test_other_tenants_reach_nothing_of_a_thread(service: Service, thread: str) -> None:
    say(service, thread, "Hello")
    question, answer = messages(service, thread)
    other = client_of(service, "globex")
    token = re.findall(r'name="csrf_token" value="([^"]+)"', other.get("/studio").text)[0]
    place = f"/studio/threads/{thread}"
    assert other.get(f"{place}/developer").status_code == 404
    for route in ("answers", "versions", "state"):
        fields = {"csrf_token": token, "message": answer.id, "text": "x", "state.note": '"x"'}
        assert other.post(f"{place}/{route}", data=fields).status_code == 404
    with pytest.raises(NotFound):
        service.threads.branches(thread, tenant="globex")
    assert texts(service, thread) == [question.text, answer.text]
    assert len(service.threads.runs(thread)) == 1


def test_forms_of_the_chat_need_the_token_of_the_page(service: Service, thread: str) -> None:
    say(service, thread, "Hello")
    client = client_of(service, "acme")
    for route in ("answers", "versions", "state"):
        answer = client.post(f"/studio/threads/{thread}/{route}", data={"text": "x"})
        assert answer.status_code == 403


@pytest.mark.law
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5), min_size=1, max_size=8))
def test_versions_lead_to_branches_that_differ_in_this_message_first(
    branches: Sequence[Sequence[str]],
) -> None:
    # A message has one id, which says where it is: the path to it.
    paths = [["".join(ids[: n + 1]) for n in range(len(ids))] for ids in branches]
    # Each has a checkpoint that no other has; the newest is the first.
    found = [Branch([f"{99 - n}", "0"], path) for n, path in enumerate(paths)]
    by_end = {branch.end: branch.messages for branch in found}
    for shown in paths:
        versions = versions_of(shown, found)
        for place, message in enumerate(shown):
            expected = {p[place] for p in paths if p[:place] == shown[:place] and len(p) > place}
            if len(expected) == 1:
                assert message not in versions
                continue
            version = versions[message]
            assert version.count == len(expected)
            assert 1 <= version.number <= version.count
            assert bool(version.previous) == (version.number > 1)
            assert bool(version.next) == (version.number < version.count)
            for other in filter(None, (version.previous, version.next)):
                assert by_end[other][:place] == shown[:place]
                assert by_end[other][place] != message


# Files


def data_of(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{b64encode(content).decode()}"


def test_files_become_content_blocks(service: Service, client: TestClient, thread: str) -> None:
    service.threads.create(thread, tenant="acme", agent="chat")
    files = {
        "lamp.png": data_of(PNG, "image/png"),
        "bill.pdf": data_of(b"%PDF-1.7 bill", "application/pdf"),
    }
    send(client, thread, "messages", text="", file=[*files.values()], file_name=[*files])
    image, pdf = messages(service, thread)[0].content
    assert (image["type"], image["mime_type"]) == ("image", "image/png")
    assert (pdf["type"], pdf["mime_type"]) == ("file", "application/pdf")
    assert pdf["extras"] == {"filename": "bill.pdf"}
    shown = client.get(f"/studio/threads/{thread}").text
    assert f'<img src="{files["lamp.png"]}" alt="lamp.png">' in shown
    assert '<p class="file">bill.pdf</p>' in shown


@pytest.mark.parametrize(
    ("file", "status", "reason"),
    [
        (data_of(b"<svg onload=alert(1)>", "image/svg+xml"), 422, "got image/svg+xml"),
        (data_of(b"<script>", "image/png"), 422, "is not image/png"),
        (data_of(b"text", "text/plain"), 422, "got text/plain"),
        ("data:image/png;base64,???", 422, "is not valid base64"),
        ("https://evil.example/a.png", 422, "something that is not a file"),
        (data_of(PNG + bytes(LIMIT), "image/png"), 413, "more than 5,000,000 bytes"),
    ],
)
def test_other_files_are_refused(
    service: Service, client: TestClient, thread: str, file: str, status: int, reason: str
) -> None:
    service.threads.create(thread, tenant="acme", agent="chat")
    answer = send(client, thread, "messages", text="Look", file=file, file_name="a")
    assert answer.status_code == status
    assert reason in unescape(answer.text)
    assert service.threads.runs(thread) == []


def test_files_of_text_are_sent_as_text(tmp_path: Any, thread: str) -> None:
    with Service(f"sqlite:///{tmp_path}/desk.db") as service:
        model = ScriptedChatModel(["Thanks."])
        service.add("notes", create_agent(model), attachments=["text"])
        service.threads.create(thread, tenant="acme", agent="notes")
        client = client_of(service, "acme")
        wrong = send(client, thread, "messages", file=data_of(b"\xff", "text/csv"))
        assert "is not UTF-8 at byte 0" in wrong.text
        file = data_of("a;ü\n".encode(), "text/csv")
        send(client, thread, "messages", text="Read", file=file, file_name="a.csv")
        block = messages(service, thread)[0].content[1]
        assert (block["type"], block["text"], block["title"]) == ("text-plain", "a;ü\n", "a.csv")
        assert "<summary>a.csv</summary>" in client.get(f"/studio/threads/{thread}").text


def test_files_are_offered_where_the_model_takes_them(
    service: Service, client: TestClient, thread: str
) -> None:
    for agent, offers in (("chat", True), ("plain", False)):
        say(service, f"{thread}-{agent}", "Hello", agent=agent)
        shown = client.get(f"/studio/threads/{thread}-{agent}").text
        assert ("Attach a file" in shown) is offers
    file = data_of(PNG, "image/png")
    answer = send(client, f"{thread}-plain", "messages", text="x", file=file, file_name="a.png")
    assert "this agent takes no files" in answer.text


def test_the_attachments_of_an_agent_are_kinds(tmp_path: Any) -> None:
    service = Service(f"sqlite:///{tmp_path}/desk.db")
    agent = create_agent(ScriptedChatModel(["Hi"], profile=INPUTS))
    service.add("known", agent)
    service.add("none", agent, attachments=[])
    assert {*service.attachments("known")} == {"image", "pdf"}
    assert service.attachments("none") == frozenset()
    for wrong in ("image", ["video"]):
        with pytest.raises(ArgumentError, match="attachments"):
            service.add("wrong", agent, attachments=wrong)  # type: ignore[arg-type]
    service.close()


def test_only_pictures_are_shown_and_none_from_elsewhere() -> None:
    shown = File.of({"type": "image", "base64": "iVBO", "mime_type": "image/png"})
    assert shown.source == "data:image/png;base64,iVBO"
    for block in (
        {"type": "image", "url": "https://evil.example/beacon.png"},
        {"type": "image", "base64": "iVBO", "mime_type": "image/svg+xml"},
        {"type": "image", "base64": '"><script>', "mime_type": "image/png"},
        {"type": "file", "base64": "iVBO", "mime_type": "text/html"},
    ):
        assert File.of(block).source == ""


# Markdown


class Tags(HTMLParser):
    """The tags of an HTML text, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


TAGS = re.compile(
    "a|blockquote|br|button|code|div|em|h[1-6]|hr|li|ol|p|pre|s|span|strong|table|tbody|td|th|thead|"
    "tr|ul"
)
ATTRIBUTES = re.compile(
    "aria-label|class|data-copy-code|href|rel|role|start|tabindex|target|title|type"
)
ADDRESSES = ["javascript:x", "/inbox", "//x", "http://x", "mailto:a@b", "data:text/html,x", "http:"]
PIECES = st.sampled_from(
    [
        *(
            "[a](",
            ")",
            "javascript:",
            "http://x",
            "//x",
            "<",
            ">",
            "![",
            "](",
            '"',
            "'",
            "`",
            "```",
        ),
        *("|", "-", "|:-:|", "<img src=x onerror=y>", "<script>", "mailto:a@b", "data:text/html,x"),
        *("&lt;", "\\", "*", "#", " ", "    ", "python", "html", " onclick=x", "\n"),
        *(f"[a]({address})" for address in ADDRESSES),
        *(f"<{address}>" for address in ADDRESSES),
        "[b]: javascript:x\n",
    ]
)


@pytest.mark.law
@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=30).map("".join))
def test_markdown_can_neither_run_nor_load_anything(text: str) -> None:
    for tag, attributes in Tags(markdown(text)).tags:
        assert TAGS.fullmatch(tag)
        assert all(map(ATTRIBUTES.fullmatch, attributes))
        if tag == "a":
            assert re.match(r"(https?://|mailto:)", attributes.get("href") or "http://")
            assert attributes["rel"] == "noopener noreferrer"


def test_markdown_is_set() -> None:
    html = str(markdown(MARKDOWN))
    assert 'class="table-box" tabindex="0"' in html
    assert '<td class="right">12</td>' in html
    assert "<span>python</span>" in html
    assert '<span class="k">return</span>' in html
    assert "style=" not in html
    assert html.count("<a ") == 3  # the catalogue, the mailbox, and the picture as a link
    assert '<a href="https://evil.example/beacon.png"' in html
    assert '<a href="mailto:ann@example.com"' in html


# State and breakpoints


def test_a_state_is_edited(service: Service, client: TestClient, thread: str) -> None:
    say(service, thread, "Hello")
    shown = client.get(f"/studio/threads/{thread}/developer").text
    (checkpoint,) = re.findall(r'name="checkpoint" value="([^"]+)"', shown)
    fields = {"checkpoint": checkpoint, "state.note": '"remember"', "state.scores": "[1, 2]"}
    answer = send(client, thread, "state", **fields)
    assert "Written: note, scores." in answer.text
    values = service.threads.state(thread).values
    assert (values["note"], values["scores"]) == ("remember", [1, 2])
    assert service.inbox("acme").audit(thread=thread, limit=1)[0].who == "ann"
    again = send(client, thread, "state", **fields)
    assert "The state has changed since it was shown" in again.text


def test_the_state_is_a_page_or_a_part_of_one(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "Hello")
    path = f"/studio/threads/{thread}/developer"
    part, whole = client.get(path, headers={"hx-request": "true"}).text, client.get(path).text
    assert "<h1>" not in part
    assert "<h1>State and breakpoints</h1>" in whole
    # The boxes of breakpoints belong to the form of a message.
    assert whole.count('form="write"') == part.count('form="write"') > 0
    assert f'id="write" method="post" action="/studio/threads/{thread}/messages"' in whole


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("scores", '["many"]', "0: 'many' is not of type 'integer'"),
        ("note", "{", "note is not JSON"),
        ("note", "3", "3 is not of type 'string'"),
        ("note", '"a", "b"', "note is not JSON"),
        ("other", "1", "no value was edited"),
        ("messages", "[]", "no value was edited"),
    ],
)
def test_an_edit_outside_the_schema_is_refused(
    service: Service, client: TestClient, thread: str, key: str, text: str, reason: str
) -> None:
    say(service, thread, "Hello")
    before = service.threads.state(thread)
    (id_,) = re.findall(
        r'name="checkpoint" value="([^"]+)"',
        client.get(f"/studio/threads/{thread}/developer").text,
    )
    answer = send(client, thread, "state", checkpoint=id_, **{f"state.{key}": text})
    assert reason in unescape(answer.text)
    assert "Nothing is written" in answer.text
    assert service.threads.state(thread) == before


def test_a_value_that_is_emptied_is_refused(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "Hello")
    service.threads.update_state(thread, {"note": "x" * 30_000, "scores": [1]}, tenant="acme")
    shown = client.get(f"/studio/threads/{thread}/developer").text
    assert "30,002 characters, of which 20,000 are shown" in shown
    assert 'name="state.note"' not in shown
    (id_,) = re.findall(r'name="checkpoint" value="([^"]+)"', shown)
    fields = {"checkpoint": id_, "state.scores": "", "state.note": '"short"'}
    only_cut = {"checkpoint": id_, "state.note": '"short"'}
    assert "no value was edited" in send(client, thread, "state", **only_cut).text
    assert "cannot be removed" in send(client, thread, "state", **fields).text
    assert service.threads.state(thread).values["scores"] == [1]


def test_the_state_cannot_be_written_while_a_run_works(
    service: Service, client: TestClient, thread: str
) -> None:
    go_on.clear()
    run = service.submit("chat", thread=thread, message=HELD, tenant="acme")
    next(run.stream())
    shown = client.get(f"/studio/threads/{thread}/developer").text
    assert "when the run has ended" in shown
    (id_,) = re.findall(r'name="checkpoint" value="([^"]*)"', shown)
    answer = send(client, thread, "state", checkpoint=id_, **{"state.note": '"x"'})
    assert "is running" in answer.text
    go_on.set()
    run.result(30)


def test_a_run_stops_at_the_breakpoints_of_the_form(
    service: Service, client: TestClient, thread: str
) -> None:
    say(service, thread, "Hello")
    assert 'form="write" name="interrupt_before" value="tools"' in (
        client.get(f"/studio/threads/{thread}/developer").text
    )
    send(client, thread, "messages", text=f"book {thread}", interrupt_before="tools")
    messages(service, thread)
    (wait,) = service.inbox("acme").waits(thread=thread)
    assert (wait.kind, wait.tool) == ("pause", "book")
    assert thread not in bookings
    assert "waiting for somebody to let it go on" in client.get(f"/studio/threads/{thread}").text
    service.decide(wait.id, "approve", by="ann", tenant="acme").result(30)
    assert thread in bookings
    wrong = send(client, thread, "messages", text="x", interrupt_after="nowhere")
    assert wrong.status_code == 422
    say(service, thread, f"book {thread}")  # the next run has none
    assert service.threads.get(thread).status == "idle"
