"""What one command leaves behind, the next one finds."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.sandbox.helper.spawn import spawn
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.new_context import new_context
from agent_cli.tools.shell.shell_session import ShellSession, ShellStart, read_report
from tests.fuzz import tries
from tests.rows import each_row
from tests.tools.calls import call


async def said(context: ToolContext, command: str) -> str:
    return (await call(context, "shell", command=command)).text


def run_bash(start: ShellStart, variables: Mapping[str, str] = MappingProxyType({})) -> None:
    env = {os.fsencode(name): os.fsencode(value) for name, value in {**start.env, **variables}.items()}
    pid = spawn(b"/bin/bash", [b"bash", b"-c", start.command.encode()], env, start.files)
    assert os.waitpid(pid, 0)[1] == 0


async def test_the_directory_and_exported_variables_last(context: ToolContext, root: Path) -> None:
    (root / "sub").mkdir()
    first = await said(context, "cd sub && export A=1 && b=2")
    assert "[working directory: sub]" in first
    assert (await said(context, 'echo "$PWD $A [$b]"')).startswith(f"{root}/sub 1 [2]\n")
    assert "working directory" not in await said(context, "cd .. && unset A")
    assert (await said(context, "pwd; echo [$A]")).startswith(f"{root}\n[]\n")


async def test_cd_dash_leads_back_to_where_the_session_was(context: ToolContext, root: Path) -> None:
    (root / "src").mkdir()
    assert "OLDPWD not set" in await said(context, "cd -"), "not where the agent's own shell was before"
    await said(context, "cd src")
    assert not context.shell.altered
    assert str(root) in await said(context, "true; cd -")
    assert str(root / "src") in await said(context, "cd -")
    await said(context, "OLDPWD=elsewhere")
    assert str(root) in await said(context, "cd -")


async def test_a_report_like_the_one_before_and_one_that_is_not(context: ToolContext) -> None:
    """What differs in each shell is left out before reports are compared."""
    await said(context, "export A=1; true 'a b' | false")
    assert (await said(context, "true\n:; echo $A")).startswith("1\n")
    assert (await said(context, "export A=2")).startswith("(no output)")
    assert (await said(context, "echo $A")).startswith("2\n")
    await said(context, "export A=1")
    assert (await said(context, "echo $A; export RANDOM=7")).startswith("1\n")
    assert context.shell.env["A"] == "1" and "RANDOM" in context.shell.env
    await said(context, "unset A")
    assert (await said(context, "echo [$A]")).startswith("[]\n")


@pytest.mark.parametrize("quoting", ["", "$'\\n'"])
async def test_a_value_that_looks_like_variables_lasts_whole(context: ToolContext, quoting: str) -> None:
    await said(context, f'export KEPT="$(declare -p; echo end)"{quoting}; export SUM=$(printf %s "$KEPT" | cksum)')
    for _ in range(2):
        assert (await said(context, '[ "$(printf %s "$KEPT" | cksum)" = "$SUM" ] && echo same')).startswith(
            "same\n"
        )
    assert "\ndeclare -i RANDOM" in context.shell.env["KEPT"]


def test_a_prompt_that_an_active_environment_has_exported_is_no_change_by_a_command(root: Path) -> None:
    session = ShellSession(root, {"PATH": os.environ["PATH"], "PS1": "(venv) $ ", "PS2": "> "})
    with closing(session.prepare("true")) as start:
        run_bash(start)
        session.adopt(start)
    assert session.altered == () and session.env["PS1"] == "(venv) $ "


async def test_a_virtual_environment_stays_active_until_it_is_left(context: ToolContext, root: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "venv")], check=True, timeout=60)
    await said(context, "source venv/bin/activate")
    assert (await said(context, "command -v python; echo $VIRTUAL_ENV")).startswith(
        f"{root}/venv/bin/python\n{root}/venv\n"
    )
    assert "python" in context.shell.shadowed()
    await said(context, "deactivate")
    assert f"{root}/venv" not in await said(context, "command -v python; echo $VIRTUAL_ENV")
    assert "python" not in context.shell.shadowed()


@pytest.mark.parametrize(
    "command",
    [
        "cd sub; exit 3",
        "cd sub; false | true",
        "set -e; cd sub; false; echo never",
        "cd sub && (cd /; exit 4)",
        "cd sub # a comment",
        "cd sub <<EOF\nno end",
        "cd sub; set -C; set -u",
        "cd sub; exec 3>&1",
        "cd sub; kill -TERM $$",
        "cd sub; PATH=",
    ],
)
async def test_it_lasts_however_the_command_ends(context: ToolContext, root: Path, command: str) -> None:
    (root / "sub").mkdir()
    await said(context, command)
    assert context.shell.cwd == root / "sub"


@pytest.mark.parametrize(
    "command", ["cd sub; exec true", "cd sub; kill -9 $$", "cd sub; trap - EXIT", "cd sub; exec 59>&-"]
)
async def test_a_shell_that_cannot_report_changes_nothing_and_says_so(
    context: ToolContext, root: Path, command: str
) -> None:
    (root / "sub").mkdir()
    text = await said(context, command)
    assert text.startswith("(no output)") and "do not last" in text
    assert context.shell.cwd == root


async def test_a_directory_that_is_gone_is_told(context: ToolContext, root: Path) -> None:
    await said(context, "mkdir sub; cd sub")
    (root / "sub").rmdir()
    text = await said(context, "pwd")
    assert text.startswith(f"{root}\n") and "working directory was gone" in text


async def test_calls_at_the_same_time_do_not_mix_their_reports(context: ToolContext, root: Path) -> None:
    import asyncio

    await asyncio.gather(*(said(context.for_call(f"c{n}"), f"sleep 0.0{n}") for n in range(8)))
    assert context.shell.cwd == root


@pytest.mark.parametrize(
    ("command", "parts"),
    [("false | true", "1, 0"), ("true | (exit 3) | true", "0, 3, 0"), ("false | tail -1", "1, 0")],
)
async def test_every_part_of_a_pipe_is_reported(context: ToolContext, command: str, parts: str) -> None:
    outcome = await call(context, "shell", command=command)
    assert outcome.exit_code == 0 and f"exit codes of the parts of the pipe: {parts}" in outcome.text


async def test_a_part_cut_off_by_the_end_of_its_pipe_has_not_failed(context: ToolContext) -> None:
    assert "parts of the pipe" not in (await call(context, "shell", command="yes | head -1")).text


async def test_a_pipe_without_failure_is_not_worth_a_word(context: ToolContext) -> None:
    assert "pipe" not in await said(context, "echo a | cat")


async def test_variables_that_are_not_exported_last_and_are_known(context: ToolContext) -> None:
    await said(
        context,
        "a='1 \"2'; b=(x 'y z' \"q\\\"\"); declare -A m=([k 1]=v); c=$'\\n\\t'; readonly r=1; declare -i n=4",
    )
    assert (await said(context, 'echo "$a|${b[1]}|${b[2]}|${m[k 1]}|${#c}|$r|$n"')).startswith(
        '1 "2|y z|q"|v|2||4\n'
    )
    assert context.shell.altered == ("n",)  # it converts what is assigned to it
    await said(context, "unset a b c m n; CDPATH=/; declare -u f; declare -n g=f; declare -c h")
    assert context.shell.altered == ("CDPATH", "f", "g", "h")


async def test_functions_last_and_count_as_other_programs(context: ToolContext) -> None:
    await said(context, "ls() { echo mine; }")
    assert (await said(context, "ls")).startswith("mine\n")
    assert "ls" in context.shell.functions and context.shell.shadowed() == ()
    await said(context, "command_not_found_handle() { echo what; }")
    assert context.shell.functions == ("*",)


async def test_a_folder_put_on_the_path_shadows_what_it_holds(context: ToolContext, root: Path) -> None:
    (root / "bin").mkdir()
    (root / "bin" / "cat").write_text("#!/bin/sh\necho other\n", encoding="utf-8")
    (root / "bin" / "cat").chmod(0o755)
    assert context.shell.shadowed() == () and context.shell.altered == ()
    await said(context, 'export PATH="$PWD/bin:$PATH"')
    assert context.shell.shadowed() == ("cat",) and context.shell.altered == ("PATH",)
    assert (await said(context, "cat x")).startswith("other\n")
    await said(context, f'export PATH="{os.environ["PATH"]}"')
    assert context.shell.shadowed() == ()


async def test_a_path_in_another_order_may_mean_other_programs_everywhere(context: ToolContext) -> None:
    folders = os.environ["PATH"].split(":")
    await said(context, f"export PATH={':'.join(reversed(folders))}")
    assert context.shell.shadowed() == ("*",)


@each_row("data", [b"", b"0 0\n/x\0\0", b"x\n/x\n\0\0\0", b"0\nrelative\n\0\0\0", b"0\n/x\n\0junk\0\0"])
def test_a_report_that_is_not_whole_counts_for_nothing(data: bytes) -> None:
    assert read_report(data) is None


VALUES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=40) | st.text(
    "'\"$`\\\n\t !*(){}[]\x01\x1b\x7fé日", max_size=12
)


@settings(max_examples=tries(40), deadline=None)
@given(st.dictionaries(st.from_regex(r"T_[A-Z0-9_]{1,8}", fullmatch=True), VALUES, max_size=4))
def test_any_value_survives_the_way_through_bash(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]
) -> None:
    session = ShellSession(tmp_path_factory.getbasetemp(), {"PATH": os.environ["PATH"]})
    with closing(session.prepare("true")) as start:
        run_bash(start, values)
        assert session.adopt(start) == "" and {name: session.env[name] for name in values} == values
    assert set(session.altered) == set(values)


async def test_what_is_too_large_to_last_is_left_out_and_said(context: ToolContext) -> None:
    text = await said(context, "export BIG=$(head -c 200000 /dev/zero | tr '\\0' a) SMALL=1")
    assert "too large to last: BIG" in text
    assert (await said(context, "echo [$BIG] $SMALL")).startswith("[] 1\n")
    text = await said(context, "big=$(head -c 4000000 /dev/zero | tr '\\0' a); cd /")
    assert "too large to last" in text
    assert context.shell.cwd == Path("/")


@pytest.mark.parametrize(
    "command", ["IFS=$'\\n'; export A=2; echo x | cat", "mkdir d; cd d; rmdir ../d; export A=2"]
)
async def test_nothing_a_command_does_to_itself_loses_its_exports(context: ToolContext, command: str) -> None:
    assert "last" not in await said(context, command)
    assert (await said(context, "echo $A")).startswith("2\n")


async def test_a_syntax_error_quotes_nothing_but_the_command(context: ToolContext) -> None:
    text = await said(context, "export A=1\nif then")
    assert "trap" not in text and "report" not in text and "syntax error" in text


async def test_the_users_own_bash_env_is_read_and_stays(root: Path, context: ToolContext) -> None:
    (root / "rc").write_text("hello() { echo from rc; }\n", encoding="utf-8")
    shell_env = {"BASH_ENV": str(root / "rc")}
    own = new_context(context.workspace, context.processes, context.spill_dir, shell_env=shell_env)
    assert (await said(own, "hello; echo $BASH_ENV")).startswith(f"from rc\n{root}/rc\n")
    assert (await said(own, "bash -c hello")).startswith("from rc\n")


async def test_what_the_users_bash_env_sets_is_no_change_by_a_command(root: Path, context: ToolContext) -> None:
    """CI and the modules of clusters set one; every command after the first would be asked about."""
    (root / "bin").mkdir()
    (root / "bin" / "build").touch(mode=0o755)
    (root / "rc").write_text(
        "export PATH=/opt/x/bin:$PATH:$HERE/bin JAVA_HOME=/opt/java; unset CDPATH; GLOBIGNORE=x\n"
        "module() { :; }; command_not_found_handle() { echo none >&2; return 127; }\n"
    )
    shell_env = {"BASH_ENV": str(root / "rc"), "HERE": str(root), "CDPATH": "/x"}
    own = new_context(context.workspace, context.processes, context.spill_dir, shell_env=shell_env)
    for command in ("true", "false | true", "module load x", "cd bin; cd .."):
        assert "last" not in await said(own, command)
        assert (own.shell.altered, own.shell.shadowed(), own.shell.functions) == ((), (), ()), command
    assert own.shell.local() == ("build",)
    assert (await said(own, "echo ${PATH%%:*} $JAVA_HOME; cd bin")).startswith("/opt/x/bin /opt/java\n")
    assert own.shell.cwd == root / "bin"
    await said(own, "export A=2 PATH=/new:$PATH JAVA_HOME=/mine; f() { :; }")
    assert (await said(own, "echo $A $PATH")).startswith("2 /opt/x/bin:/new:/opt/x/bin:")
    assert own.shell.altered == ("A", "JAVA_HOME", "PATH") and own.shell.functions  # one of its own: all count
    assert "without a report" in await said(own, "exec true")


async def test_a_relative_folder_on_the_path_may_hold_anything(context: ToolContext) -> None:
    await said(context, "PATH=.:$PATH")
    assert context.shell.shadowed() == ("*",)


async def test_no_file_is_written_and_no_descriptor_stays_open(context: ToolContext) -> None:
    await said(context, "true")
    temporary = set(os.listdir(tempfile.gettempdir()))
    for command in ("export A=1", "exec true", "nothing-of-this-name", "cd /nowhere"):
        await said(context, command)
    await call(context, "shell", command="sleep 30", timeout_s=1)
    assert set(os.listdir(tempfile.gettempdir())) == temporary
    kept = subprocess.run(["ls", "-l", f"/proc/{os.getpid()}/fd"], capture_output=True, text=True, timeout=60)
    assert "memfd:agent" not in kept.stdout


async def test_a_program_finds_one_descriptor_more_and_none_of_other_commands(context: ToolContext) -> None:
    await call(context.for_call("other"), "shell", command="sleep 30", background=True)
    listed = "python3 -c 'import os; print(sorted(int(n) for n in os.listdir(\"/proc/self/fd\")))'"
    assert (await said(context, listed)).startswith("[0, 1, 2, 3, 59]\n")


@pytest.mark.parametrize(
    "written", ["echo junk >&59", "head -c 3000000 /dev/zero >&59", "truncate -s 1T /dev/fd/59", ": >|/dev/fd/59"]
)
async def test_a_command_that_writes_something_else_into_its_report_is_not_believed(
    context: ToolContext, root: Path, written: str
) -> None:
    (root / "sub").mkdir()
    text = await said(context, f"cd sub; trap - EXIT; {written}")
    assert " last" in text and context.shell.cwd == root


async def test_what_only_the_sandbox_sets_or_leaves_out_does_not_change_the_session(root: Path) -> None:
    session = ShellSession(root, {"PATH": os.environ["PATH"], "TOKEN": "t", "KEPT": "k"})

    def confined(env: Mapping[str, str]) -> dict[str, str]:
        return {**{name: value for name, value in env.items() if name != "TOKEN"}, "CACHE": "/c", "OFFLINE": "1"}

    with closing(session.prepare("export NEW=n OFFLINE=0; unset KEPT", confined)) as start:
        run_bash(start)
        assert session.adopt(start) == ""
    assert session.env == {"PATH": os.environ["PATH"], "TOKEN": "t", "NEW": "n", "OFFLINE": "0"}
    assert session.altered == ("KEPT", "NEW", "OFFLINE")


async def test_a_command_that_ends_others_by_their_words_does_not_end_itself(context: ToolContext) -> None:
    text = await said(
        context, "sleep 77.5 & pkill -f 'sleep 77[.]5'; wait; echo rest; pgrep -f 'sleep 77[.]5'; echo $? $#; foo"
    )
    assert text.startswith("rest\n1 0\n/bin/bash: line 1: foo: command not found\n"), text


async def test_a_command_that_ends_what_a_list_of_processes_shows_does_not_end_itself(
    context: ToolContext,
) -> None:
    text = await said(
        context,
        "sleep 77.6 & ps -eo pid,args | grep 'sleep 77[.]6' | awk '{print $1}' | xargs kill; wait; echo rest",
    )
    assert text.startswith("rest\n"), text


async def test_the_variable_that_holds_the_command_does_not_last(context: ToolContext) -> None:
    await said(context, "export AGENT_COMMAND KEPT=1; pgrep -f nothing-like-this")
    assert (await said(context, "bash -c 'echo \"[$AGENT_COMMAND]$KEPT\"'")).startswith("[]1\n")
    assert context.shell.altered == ("KEPT",)


async def test_a_command_that_begins_with_a_dash_is_not_found(context: ToolContext) -> None:
    for command in ("-x", "-x pgrep"):
        assert "-x: command not found" in await said(context, command)
