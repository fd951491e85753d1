"""Programs that need a terminal are recognised, and stopped long before the time-out."""

import asyncio
from pathlib import Path

from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.shell.shell import full_screen_program
from tests.rows import each_row
from tests.tools.calls import call

NEEDS = """
vi file
vim +12 src/a.py
EDITOR=x nvim
cd src && /usr/bin/nano a.txt
sudo top
top -d 5
less -R log.txt
git log | less
watch -n 1 date
for f in *; do vim "$f"; done
htop
emacs notes.org
"""
WITHOUT = """
vim -es -c 'wq' file
vim --version
nvim --headless +q
emacs --batch -l x.el
top -b -n 1
npm run watch
jest --watch
grep -r less .
echo vi
git commit -m "use vim; really"
cat more.txt
./viewer
ssh host make
tail -f log
make top
"""


@each_row("line", NEEDS.strip().splitlines())
def test_a_program_that_needs_a_terminal_is_recognised(line: str) -> None:
    assert full_screen_program(line) is not None


@each_row("line", WITHOUT.strip().splitlines())
def test_others_and_those_told_to_do_without_one_are_not(line: str) -> None:
    assert full_screen_program(line) is None


async def test_one_that_waits_is_stopped_before_its_time_and_the_model_is_told_what_to_use(
    context: ToolContext, root: Path
) -> None:
    for name in ("watch", "nvim"):
        (root / name).write_text("#!/bin/sh\necho drawing\nexec sleep 1000\n", encoding="utf-8")
        (root / name).chmod(0o755)
    async with asyncio.timeout(60):  # the time-out of a command is 120 s
        outcome = await call(context, "shell", command="./watch -n 1 date")
        assert not outcome.ok and not outcome.job and not list(context.jobs)
        assert "[stopped after " in outcome.text and "`watch` needs a terminal" in outcome.text
        assert outcome.text.startswith("drawing\n") and "run the command itself" in outcome.text
        job = await call(context, "shell", command="./nvim x", background=True)
        assert job.job and "needs a terminal" not in job.text
        for each in context.jobs:
            await each.stop()


async def test_one_that_ends_by_itself_is_told_too_unless_it_did_well(context: ToolContext, root: Path) -> None:
    for name, code in (("vi", 1), ("less", 0)):
        (root / name).write_text(f"#!/bin/sh\nexit {code}\n", encoding="utf-8")
        (root / name).chmod(0o755)
    assert "`vi` needs a terminal" in (await call(context, "shell", command="./vi x")).text
    assert "needs a terminal" not in (await call(context, "shell", command="./less x")).text
