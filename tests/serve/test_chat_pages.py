"""The chat of the studio over plain HTTP: versions of messages, files, state and breakpoints."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from web.chat_desk import HELD, INPUTS, MARKDOWN, add_chat, bookings, go_on

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.serve import Principal, create_app
from agent_factory.serve.pages.attachments import LIMIT, File
from agent_factory.serve.pages.history import Branch, versions_of
from agent_factory.serve.pages.markdown import markdown
from agent_factory.service import NotFound, Service
from agent_factory.testing import ScriptedChatModel
from serve.forms import Tags
from tables import each

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path_factory.mktemp('chat')}/desk.db") as made:
        add_chat(made)
        yield made


class Chat:
    """A thread of a tenant, and a client that sees its page."""

    def __init__(self, service: Service, tenant: str = "acme", thread: str = "") -> None:
        self.service, self.thread = service, thread or uuid4().hex
        self.client = TestClient(create_app(service, lambda _: Principal(tenant, "ann")))

    def say(self, message: str, agent: str = "chat") -> None:
        options: Any = {"thread": self.thread, "tenant": "acme"}
        self.service.submit(agent, message=message, **options).result(60)

    def messages(self) -> list[Any]:
        """The messages of the thread once its run has ended or paused."""
        self.service.run(str(self.service.threads.get(self.thread).run)).result(60)
        return list(self.service.threads.state(self.thread).values["messages"])

    def texts(self) -> list[str]:
        return [str(message.text) for message in self.messages()]

    def wait(self) -> Any:
        """The wait of the thread."""
        (wait,) = self.service.inbox("acme").waits(thread=self.thread)
        return wait

    def page(self, rest: str = "") -> str:
        return self.client.get(f"/studio/threads/{self.thread}{rest}").text

    def send(self, route: str, **fields: Any) -> Any:
        """Send a form of the page of the thread."""
        page = f"/studio/threads/{self.thread}"
        return self.client.post(f"{page}/{route}", data=fields)

    def checkpoint(self) -> str:
        """The checkpoint that the form of the state names."""
        (id,) = re.findall(r'name="checkpoint" value="([^"]*)"', self.page("/developer"))
        return str(id)


@pytest.fixture
def chat(service: Service) -> Chat:
    return Chat(service)


@pytest.fixture
def held(service: Service) -> Iterator[Chat]:
    """A thread whose second run works during the test."""
    chat = Chat(service)
    chat.say("Hello")
    go_on.clear()
    options: Any = {"thread": chat.thread, "tenant": "acme"}
    run = service.submit("chat", message=HELD, **options)
    next(run.stream())
    yield chat
    go_on.set()
    run.result(60)


def at_of(page: str) -> str:
    """The checkpoint that a page links to as the version before."""
    (at,) = re.findall(r'\?at=([\w-]+)" aria-label="The version before"', page)
    return str(at)


def test_an_edited_message_begins_a_branch(chat: Chat) -> None:
    """And a message in the other branch goes on from it."""
    for text in ("one", "two"):
        chat.say(text)
    first, _, third, _ = chat.messages()
    chat.send("versions", message=third.id, text="TWO")
    assert chat.texts()[2:] == ["TWO", "Answer 3 to 'TWO' with text"]
    chat.send("versions", message=first.id, text="ONE")
    assert chat.texts() == ["ONE", "Answer 4 to 'ONE' with text"]
    shown = chat.page()
    assert "2/2" in shown
    assert "TWO" not in shown
    # The newest branch of the other version of the first message.
    earlier = chat.page(f"?at={at_of(shown)}")
    for text in ("TWO", "1/2", "You see another branch of this thread"):
        assert text in earlier
    assert len(chat.service.threads.branches(chat.thread)) == 3
    chat.send("messages", text="And then?", checkpoint=at_of(shown))
    assert chat.texts()[2:-1] == ["TWO", "Answer 3 to 'TWO' with text", "And then?"]
    assert "1/2" in chat.page()


def test_an_answer_alone_runs_no_call_again_and_the_whole_does(chat: Chat) -> None:
    chat.say("Hello")
    assert "These calls have run" not in chat.page()
    chat.say(f"book {chat.thread}")
    *_, question, _, _, answer = chat.messages()
    shown = chat.page()
    # At both messages of the user: the call comes after each of them.
    assert shown.count("These calls have run") == 2
    form = shown.rpartition('aria-label="Regenerate this answer"')[2].partition("</details>")[0]
    alone, _, whole = form.partition('name="whole"')
    assert "do not run again" in alone
    assert "these calls run again" in whole
    assert f'<code>book</code> <span class="args">lamp=&#39;{chat.thread}&#39;' in whole
    chat.send("answers", message=answer.id)
    assert chat.texts()[-1] == f"Answer 4: Booked {chat.thread}."
    assert bookings.count(chat.thread) == 1
    chat.send("answers", message=question.id, whole="1")
    assert chat.texts()[-1] == f"Answer 6: Booked {chat.thread}."
    assert bookings.count(chat.thread) == 2


def test_a_branch_withdraws_the_question_and_says_so(chat: Chat) -> None:
    chat.say("refund it")
    wait = chat.wait()
    assert "its call does not run" in chat.page()
    chat.send("versions", message=chat.messages()[0].id, text="Hello")
    assert chat.texts() == ["Hello", "Answer 2 to 'Hello' with text"]
    assert chat.service.inbox("acme").get(wait.id).decision == {"type": "cancel"}


def test_a_call_that_was_approved_is_reviewed_again_in_another_branch(chat: Chat) -> None:
    chat.say("refund it")
    chat.service.decide(chat.wait().id, "approve", by="olga", tenant="acme").result(60)
    chat.send("answers", message=chat.messages()[0].id, whole="1")
    chat.messages()
    assert chat.service.threads.get(chat.thread).status == "waiting"


def test_no_branch_begins_and_no_state_is_written_while_a_run_works(held: Chat) -> None:
    shown = held.page()
    assert "Regenerate" not in shown
    assert "Edit and send again" not in shown
    question, answer, *_ = held.service.threads.state(held.thread).values["messages"]
    for route, message in (("answers", answer), ("versions", question)):
        assert held.send(route, message=message.id, text="x").status_code == 409
    assert "when the run has ended" in held.page("/developer")
    written = held.send("state", checkpoint=held.checkpoint(), **{"state.note": '"x"'})
    assert "is running" in written.text


def test_a_thread_that_takes_no_message_before_the_decision_begins_no_branch(
    service: Service, chat: Chat
) -> None:
    service.add("strict", service.agents["chat"], waiting="reject")
    chat.say("refund it", agent="strict")
    question = chat.messages()[0]
    assert "Edit and send again" not in chat.page()
    assert chat.send("versions", message=question.id, text="Hello").status_code == 409


@pytest.mark.long
def test_only_messages_of_the_branch_can_be_replaced(chat: Chat) -> None:
    chat.say("Hello")
    question, answer = chat.messages()
    assert chat.send("answers", message="none").status_code == 404
    assert chat.send("answers", message="none", whole="1").status_code == 404
    assert chat.send("versions", message=answer.id, text="x").status_code == 404
    assert chat.send("versions", message=question.id, text=" ").status_code == 422


def test_other_tenants_reach_nothing_of_a_thread(chat: Chat) -> None:
    chat.say("Hello")
    question, answer = chat.messages()
    other = Chat(chat.service, "globex", chat.thread)
    place = f"/studio/threads/{chat.thread}"
    assert other.client.get(f"{place}/developer").status_code == 404
    for route in ("answers", "versions", "state"):
        fields = {"message": answer.id, "text": "x", "state.note": '"x"'}
        assert other.client.post(f"{place}/{route}", data=fields).status_code == 404
    with pytest.raises(NotFound):
        chat.service.threads.branches(chat.thread, tenant="globex")
    assert chat.texts() == [question.text, answer.text]
    assert len(chat.service.threads.runs(chat.thread)) == 1


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


def data_of(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{b64encode(content).decode()}"


def test_files_become_content_blocks(chat: Chat) -> None:
    """An edited message keeps them."""
    chat.service.threads.create(chat.thread, tenant="acme", agent="chat")
    files = {
        "lamp.png": data_of(PNG, "image/png"),
        "bill.pdf": data_of(b"%PDF-1.7 bill", "application/pdf"),
    }
    chat.send("messages", text="", file=[*files.values()], file_name=[*files])
    image, pdf = chat.messages()[0].content
    assert (image["type"], image["mime_type"]) == ("image", "image/png")
    assert (pdf["type"], pdf["mime_type"]) == ("file", "application/pdf")
    assert pdf["extras"] == {"filename": "bill.pdf"}
    shown = chat.page()
    assert f'<img src="{files["lamp.png"]}" alt="lamp.png">' in shown
    assert '<p class="file">bill.pdf</p>' in shown
    chat.send("versions", message=chat.messages()[0].id, text="Look again")
    edited = chat.messages()[0]
    assert {block["type"] for block in edited.content_blocks} == {"text", "image", "file"}
    assert edited.text == "Look again"


@each(
    "file, status, reason",
    [
        (data_of(b"<svg onload=alert(1)>", "image/svg+xml"), 422, "got image/svg+xml"),
        (data_of(b"<script>", "image/png"), 422, "is not image/png"),
        (data_of(b"text", "text/plain"), 422, "got text/plain"),
        ("data:image/png;base64,???", 422, "is not valid base64"),
        ("https://evil.example/a.png", 422, "something that is not a file"),
        (data_of(PNG + bytes(LIMIT), "image/png"), 413, "more than 5,000,000 bytes"),
    ],
)
def test_other_files_are_refused(service: Service, file: str, status: int, reason: str) -> None:
    chat = Chat(service)
    chat.service.threads.create(chat.thread, tenant="acme", agent="chat")
    answer = chat.send("messages", text="Look", file=file, file_name="a")
    assert answer.status_code == status
    assert reason in unescape(answer.text)
    assert chat.service.threads.runs(chat.thread) == []


def test_files_of_text_are_sent_as_text(service: Service, chat: Chat) -> None:
    service.add("notes", create_agent(ScriptedChatModel(["Thanks."])), attachments=["text"])
    service.threads.create(chat.thread, tenant="acme", agent="notes")
    wrong = chat.send("messages", file=data_of(b"\xff", "text/csv"))
    assert "is not UTF-8 at byte 0" in wrong.text
    file = data_of("a;ü\n".encode(), "text/csv")
    chat.send("messages", text="Read", file=file, file_name="a.csv")
    block = chat.messages()[0].content[1]
    assert (block["type"], block["text"], block["title"]) == ("text-plain", "a;ü\n", "a.csv")
    assert "<summary>a.csv</summary>" in chat.page()


def test_files_are_offered_where_the_model_takes_them(service: Service) -> None:
    for agent, offers in (("chat", True), ("plain", False)):
        chat = Chat(service)
        chat.say("Hello", agent=agent)
        assert ("Attach a file" in chat.page()) is offers
    answer = chat.send("messages", text="x", file=data_of(PNG, "image/png"), file_name="a.png")
    assert "this agent takes no files" in answer.text


def test_the_attachments_of_an_agent_are_kinds(service: Service) -> None:
    agent = create_agent(ScriptedChatModel(["Hi"], profile=INPUTS))
    service.add("known", agent)
    service.add("none", agent, attachments=[])
    assert {*service.attachments("known")} == {"image", "pdf"}
    assert service.attachments("none") == frozenset()
    for wrong in ("image", ["video"]):
        with pytest.raises(ArgumentError, match="attachments"):
            service.add("wrong", agent, attachments=wrong)  # type: ignore[arg-type]


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


TAGS = re.compile(
    "a|blockquote|br|button|code|div|em|h[1-6]|hr|li|ol|p|pre|s|span|strong|table|tbody|td|th|thead|"
    "tr|ul"
)
ATTRIBUTES = re.compile(
    "aria-label|class|data-copy-code|href|rel|role|start|tabindex|target|title|type"
)
ADDRESSES = ["javascript:x", "/inbox", "//x", "http://x", "mailto:a@b", "data:text/html,x", "http:"]
SIGNS = """
[a]( ) javascript: http://x //x < > ![ ]( " ' ` ``` | - |:-:| <script> mailto:a@b data:text/html,x
&lt; \\ * # python html
"""
PIECES = st.sampled_from(
    [
        *SIGNS.split(),
        *("<img src=x onerror=y>", " ", "    ", " onclick=x", "\n", "[b]: javascript:x\n"),
        *(f"[a]({address})" for address in ADDRESSES),
        *(f"<{address}>" for address in ADDRESSES),
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


def test_a_state_is_edited(chat: Chat) -> None:
    chat.say("Hello")
    path, whole = f"/studio/threads/{chat.thread}/developer", chat.page("/developer")
    part = chat.client.get(path, headers={"hx-request": "true"}).text
    assert ["<h1>State and breakpoints</h1>" in html for html in (whole, part)] == [True, False]
    # The boxes of breakpoints belong to the form of a message.
    assert whole.count('form="write"') == part.count('form="write"') > 0
    assert f'id="write" method="post" action="/studio/threads/{chat.thread}/messages"' in whole
    fields = {"state.note": '"remember"', "state.scores": "[1, 2]"}
    checkpoint = chat.checkpoint()
    assert "Written: note, scores." in chat.send("state", checkpoint=checkpoint, **fields).text
    values = chat.service.threads.state(chat.thread).values
    assert (values["note"], values["scores"]) == ("remember", [1, 2])
    assert chat.service.inbox("acme").audit(thread=chat.thread, limit=1)[0].who == "ann"
    again = chat.send("state", checkpoint=checkpoint, **fields)
    assert "The state has changed since it was shown" in again.text


@each(
    "key, text, reason",
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
    chat: Chat, key: str, text: str, reason: str
) -> None:
    chat.say("Hello")
    before = chat.service.threads.state(chat.thread)
    answer = chat.send("state", checkpoint=chat.checkpoint(), **{f"state.{key}": text})
    assert reason in unescape(answer.text)
    assert "Nothing is written" in answer.text
    assert chat.service.threads.state(chat.thread) == before


def test_a_value_that_is_emptied_is_refused(chat: Chat) -> None:
    chat.say("Hello")
    values = {"note": "x" * 30_000, "scores": [1]}
    chat.service.threads.update_state(chat.thread, values, tenant="acme")
    shown = chat.page("/developer")
    assert "30,002 characters, of which 20,000 are shown" in shown
    assert 'name="state.note"' not in shown
    only_cut = {"checkpoint": chat.checkpoint(), "state.note": '"short"'}
    assert "no value was edited" in chat.send("state", **only_cut).text
    assert "cannot be removed" in chat.send("state", **only_cut, **{"state.scores": ""}).text
    assert chat.service.threads.state(chat.thread).values["scores"] == [1]


def test_a_run_stops_at_the_breakpoints_of_the_form(chat: Chat) -> None:
    chat.say("Hello")
    assert 'form="write" name="interrupt_before" value="tools"' in chat.page("/developer")
    chat.send("messages", text=f"book {chat.thread}", interrupt_before="tools")
    chat.messages()
    wait = chat.wait()
    assert (wait.kind, wait.tool) == ("pause", "book")
    assert chat.thread not in bookings
    assert "waiting for somebody to let it go on" in chat.page()
    chat.service.decide(wait.id, "approve", by="ann", tenant="acme").result(60)
    assert chat.thread in bookings
    assert chat.send("messages", text="x", interrupt_after="nowhere").status_code == 422
    chat.say(f"book {chat.thread}")  # the next run has none
    assert chat.service.threads.get(chat.thread).status == "idle"
