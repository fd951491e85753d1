"""A rule with a wildcard on a program that is given a program as text does not cover what that text may run."""

from agent_cli.protocol.actions import Allow
from tests.policy.support import ruled
from tests.policy.test_authorize import run
from tests.rows import each_row

COVERED = [
    "awk '{print $1}' f", "awk -F: '{s += $2} END {print s}' f", "sed s/a/b/ f", "sed -n 's/a/e/gp' f",
    "sed 's|eat|we|g' f", "sed 5q f", "zip -r a b", "gdb --batch ./prog", "vim -es f", "sed s/w/e/2 f",
    "sort --reverse f", "sort -rnk2,2 f", "tar xzf a.tar.gz", "tar -czf a.tar b", "tar --list --file=a.tar", "curl -fsSL http://a/b",
    "curl -XPOST http://a/b", "curl -so- http://a/b", "wget -qO- http://a/b", "man -a ls", "less -SR f", "rg -tpy -A3 x",
    "pytest -vx -rA", "make -j4 --silent all", "perl -c f", "ssh -vN host", "docker run -it x", "rsync -a a b", "mypy --strict a",
]  # fmt: skip
RUNS = [
    "awk 'BEGIN{system(\"touch x\")}'", "awk '{print | \"sh\"}' f", "awk '{\"id\" | getline x}' f", "gawk '@load \"x\"' f",
    "awk '{print > \"/etc/x\"}' f", "mawk 'BEGIN{system (\"id\")}'", "sed s/a/id/e f", "sed 's|a|id|gew' f", "sed '1e id' f",
    "sed 'e' f", "sed -n '/x/w /tmp/out' f", "sed '$!N;s#a#b#2e' f", "zip a b -T -TT 'sh -c x'", "zip -rTT sh a b",
    "gdb -ex '!sh'", "gdb --eval-command=shell", "gdb -x script", "vim -c '!id' f", "vim +'!id' f", "sed '1r /etc/passwd' f",
    "sort --outp=x f", "sort --comp=./x f", "sed --in-pl s/a/b/ f", "sed --expr=1w f", "tar -cI ./x -f a b", "tar cIf ./x a b",
    "tar xPf a", "tar --use-comp=./x -cf a b", "tar --checkpoint-act=exec=./x -cf a b", "tar --index-file=x -cf a b", "tar -xT f",
    "tar --rem -cf a b", "gawk -d 1 f", "gawk -ox 1 f", "mawk -Wexec f", "awk -cf x f", "gawk --fil=x f", "vim -Nu x f", "vim -w x f",
    "gdb --ev='!sh'", "zip a b --unzip-c=./x", "less -No x f", "less --log-f=x f", "man -aP ./x ls", "man --pag=./x ls",
    "perl -0777ne 'unlink' f", "ruby -0777ne 1 f", "php -nr 1", "curl -sSLo x http://a/b", "curl -sO http://a/b",
    "curl -sT f http://a/b", "curl -D x http://a/b", "curl --libcurl x http://a/b", "curl --remote-name http://a/b", "wget -qO x http://a/b",
    "wget --save-cook=x http://a/b", "rsync -ave ./x a b", "ssh -to ProxyCommand=./x host", "docker run -itv .:/y x",
    "rg -nz x", "rg -nf f", "fd -Hx ./x", "pytest -xp x", "make --ev=x", "make --dir=x", "mypy --python-exec=./x a", "ruff check -qo x",
]  # fmt: skip
_PROGRAMS = "awk gawk mawk sed zip gdb vim sort tar curl wget man less rg fd pytest make perl ruby php ssh docker rsync mypy ruff"
_ALLOWED = [f"allow shell({name} *)" for name in _PROGRAMS.split()]


@each_row("line", COVERED)
def test_ordinary_uses_are_covered(line: str) -> None:
    assert isinstance(run(line, ruled(*_ALLOWED, mode="ask", sandboxed=False)), Allow)


@each_row("line", RUNS)
def test_a_text_that_runs_commands_or_names_files_is_asked_about(line: str) -> None:
    assert not isinstance(run(line, ruled(*_ALLOWED, mode="ask", sandboxed=False)), Allow)
