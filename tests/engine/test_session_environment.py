"""Variables that hooks give to the later commands of a session."""

from pathlib import Path

from agent_cli.hooks.definition import Hook
from agent_cli.protocol.events import Notice
from agent_cli.protocol.messages import ToolResult
from tests.engine.harness import Engine, engine
from tests.model.scripted import call, say
from tests.rows import each_row


def starting(lines: str, **more: bool) -> Hook:
    return Hook("SessionStart", f"cat >> \"$CLAUDE_ENV_FILE\" <<'END'\n{lines}\nEND", name="env", **more)


def printed(it: Engine) -> list[str]:
    return [record.text for record in it.session.records if isinstance(record, ToolResult)]


@each_row(
    ("lines", "shows"),
    [
        ("export COLOUR=blue", "<blue>"),
        ("COLOUR=blue", "<blue>"),
        ("export COLOUR='a \"b\" $HOME'", '<a "b" $HOME>'),
        ('declare -x COLOUR="light blue"', "<light blue>"),
        ("export BASE=blue\nexport COLOUR=light-$BASE", "<light-blue>"),
        ("echo noise\nexport COLOUR=blue", "<blue>"),
        ("export COLOUR=blue\nexit 3", "<blue>"),
    ],
)
async def test_lines_of_a_hook_hold_for_later_commands(tmp_path: Path, lines: str, shows: str) -> None:
    ask = call("shell", command='echo "<$COLOUR>"')
    async with engine(tmp_path, say(ask), say(ask), say("done"), hooks=[starting(lines)], mode="yolo") as it:
        await it.prompt("go")
        assert [shows in text for text in printed(it)] == [True, True]
        assert not it.context.shell.altered  # as if the program had been started with it


async def test_lines_of_several_hooks_and_a_longer_path_hold(tmp_path: Path) -> None:
    hooks = [
        starting("export A=1"),
        Hook("SessionStart", 'echo \'export PATH="$PATH:/own/bin"\' >> "$CLAUDE_ENV_FILE"'),
    ]
    ask = call("shell", command='echo "<$A>"; echo "$PATH"')
    async with engine(tmp_path, say(ask), say("done"), hooks=hooks, mode="yolo") as it:
        await it.prompt("go")
        (text,) = printed(it)
        assert "<1>" in text and ":/own/bin" in text and "/bin:" in text


async def test_a_secret_is_not_taken_and_that_is_said(tmp_path: Path) -> None:
    hook = starting("export DB_PASSWORD=hunter2hunter2\nexport COLOUR=blue")
    ask = call("shell", command='echo "<$DB_PASSWORD$COLOUR>"')
    async with engine(tmp_path, say(ask), say("done"), hooks=[hook], mode="yolo") as it:
        await it.prompt("go")
        assert "<blue>" in printed(it)[0]
        (notice,) = [event.text for event in it.of(Notice) if "DB_PASSWORD" in event.text]
        assert "hunter2" not in notice


async def test_an_unreadable_file_changes_nothing_and_is_said(tmp_path: Path) -> None:
    hook = Hook("SessionStart", 'rm "$CLAUDE_ENV_FILE"; mkfifo "$CLAUDE_ENV_FILE"')
    ask = call("shell", command='echo "<$COLOUR>"')
    async with engine(tmp_path, say(ask), say("done"), hooks=[hook], mode="yolo") as it:
        await it.prompt("go")
        assert "<>" in printed(it)[0] and any("CLAUDE_ENV_FILE" in event.text for event in it.of(Notice))
