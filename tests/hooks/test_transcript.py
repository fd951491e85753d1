"""The transcript for hooks has the whole conversation, whatever happened to the session meanwhile."""

import json
import resource
from collections.abc import Sequence
from pathlib import Path

from agent_cli.engine.tool_calls.call_hooks import call_facts
from agent_cli.hooks.transcript import ClaudeTranscript
from agent_cli.protocol.messages import AssistantMessage, ToolCall, UserMessage
from agent_cli.protocol.records import AnyRecord, CompactionSaved, Header
from agent_cli.session.session import Session
from agent_cli.store.session_file import StoreError

HEADER = Header(id="h", seq=1, version=1, session_id="s1", cwd="/x", model="m", mode="ask", created_by="test")
LONG = "What was said before the compaction. " * 1000


def opened(folder: Path, session: Session) -> ClaudeTranscript:
    return ClaudeTranscript(
        folder / "t" / "transcript.jsonl",
        session,
        "s1",
        folder,
        lambda call: None,
        str,
        lambda records: (),
    )


def texts(path: str) -> list[str]:
    lines = map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())
    return [str(line["message"]["content"]) for line in lines]


def conversation(text: str) -> list[AnyRecord]:
    return [UserMessage(id=f"u-{text[:3]}", text="go"), AssistantMessage(id=f"a-{text[:3]}", text=text)]


def test_texts_that_memory_has_let_go_of_are_in_the_transcript(tmp_path: Path) -> None:
    kept: list[AnyRecord] = [HEADER]
    session = Session(kept, None, saved=True, reread=lambda: kept)
    transcript = opened(tmp_path, session)
    session.append(*conversation("one"))
    transcript.updated()
    session.append(*conversation(LONG), *conversation("two"))
    kept[:] = session.records
    session.append(CompactionSaved(id="c", through="a-Wha", summary="Long ago.", before=9, after=2))
    assert LONG not in str(session.records), "it was let go of"
    assert LONG in "".join(texts(transcript.updated()))


def test_a_session_that_cannot_be_read_any_more_leaves_the_transcript_as_it_is(tmp_path: Path) -> None:
    kept: list[AnyRecord] = [HEADER]

    def read() -> Sequence[AnyRecord]:
        if not kept:
            raise StoreError("The session's file is gone.")
        return kept

    session = Session([HEADER], None, saved=True, reread=read)
    transcript = opened(tmp_path, session)
    session.append(*conversation("one"))
    kept[:] = session.records
    before = texts(transcript.updated())
    kept.clear()
    session.append(*conversation(LONG), *conversation("two"))
    session.append(CompactionSaved(id="c", through="a-Wha", summary="Long ago.", before=9, after=2))
    assert texts(transcript.updated()) == before != []


def test_a_full_disk_leaves_no_broken_line_and_what_is_missing_comes_later(tmp_path: Path) -> None:
    session = Session([HEADER], None, saved=True)
    transcript = opened(tmp_path, session)
    session.append(*conversation("one"))
    path = transcript.updated()
    before = Path(path).read_bytes()
    session.append(*conversation(LONG))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 1000, limits[1]))
    try:
        assert Path(transcript.updated()).read_bytes() == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert LONG in "".join(texts(transcript.updated()))
    assert [each.name for each in Path(path).parent.iterdir()] == ["transcript.jsonl"]


def test_the_files_of_a_patch_are_named(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: new.py\n+x\n*** Update File: a.py\n@@\n-1\n+2\n*** End Patch\n"
    session = Session([HEADER], None, saved=True)
    transcript = ClaudeTranscript(
        tmp_path / "t" / "transcript.jsonl",
        session,
        "s1",
        tmp_path,
        lambda call: call_facts(call.id, call.name, {"patch": patch}, "/work"),
        str,
        lambda records: (),
    )
    session.append(AssistantMessage(id="a", text="", calls=(ToolCall("c1", "apply_patch", "{}"),)))
    (line,) = map(json.loads, Path(transcript.updated()).read_text(encoding="utf-8").splitlines())
    made = {each["name"]: each["input"] for each in line["message"]["content"]}
    assert made["Write"] == {"file_path": "/work/new.py", "patch": patch, "content": "x\n"}
    assert (made["Edit"]["file_path"], made["Edit"]["new_string"]) == ("/work/a.py", "2\n")
