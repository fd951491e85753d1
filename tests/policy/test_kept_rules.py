"""Rules kept by "always": they answer the same work again, in pipelines too, and nothing else."""

from itertools import product

from agent_cli.protocol.actions import Allow, Ask
from tests.policy.support import ruled
from tests.policy.test_authorize import kind, run
from tests.rows import each_row

_KEPT = (
    "pytest -q", "npm run build --fast", "npm test", "git commit -m x", "git add -A", "make lint", "cargo test a", "go test ./...",
    "ruff check .", "mypy src", "uv run pytest -q", "python -m pytest -q", "git fetch origin", "tsc --noEmit", "eslint src",
)  # fmt: skip


def kept() -> tuple[str, ...]:
    """The rules that a person would have been offered for the commands above."""
    rules = []
    for command in _KEPT:
        verdict = run(command, ruled(mode="ask", sandboxed=False))
        assert isinstance(verdict, Ask) and verdict.grant, command
        rules.append(f"allow {verdict.grant}")
    return tuple(rules)


@each_row(
    "command",
    [
        "rm a", "python3.12 -c 1", "python3.12 -", "duckdb", "curl https://x", "wget https://x", "ssh h", "scp a h:", "docker ps", "docker run x", "sudo make", "find . -newer x -exec touch {} +",
        "xargs make", "python -c 'x'", "python3", "node -e 1", "perl -e 1", "bash -c x", "bash", "sh -c 'make'", "eval x",
        "timeout 5 frob --x 'a b'", "awk 'BEGIN {system(1)}'", "sed -i x a", "kubectl get pods", "aws s3 ls", "nc h 1", "parallel make", "X=1 make", "make *.o",
        "kill 1", "chmod +x a", "source a", "docker-compose up", "nohup curl x", "psql -c x", "ruby -e 1", "php -r 1", "tee a", "dd if=a",
    ],
)  # fmt: skip
@each_row("sandboxed", [True, False])
def test_for_what_may_be_anything_next_time_no_rule_is_offered(command: str, sandboxed: bool) -> None:
    verdict = run(command, ruled(mode="ask", sandboxed=sandboxed))
    assert isinstance(verdict, Ask) and verdict.grant == ""


def test_lines_of_allowed_parts_ask_nothing() -> None:
    allowed = kept()
    readers = ("head -20", "tail -5", "grep -i error a.txt", "wc -l a.txt", "sort a.txt")
    lines = [f"{one} && {two}" for one, two in product(_KEPT[:8], _KEPT[8:12])]
    lines += [f"{one} 2>&1 | {reader}" for one, reader in product(_KEPT[:8], readers)]
    lines += [f"{one} || echo failed; {two} | head" for one, two in zip(_KEPT, reversed(_KEPT), strict=True)]
    lines += [f"cd src && {one} 2>/dev/null && ls" for one in _KEPT] + [f"timeout 60 {one}" for one in _KEPT]
    assert len(lines) >= 80
    for sandboxed in (False, True):
        given = ruled(*allowed, mode="ask", sandboxed=sandboxed)
        assert [line for line in lines if not isinstance(run(line, given), Allow)] == []


_ROUND = (
    "{0}; ./evil", "{0} && ./evil", "{0} || ./evil", "{0} | ./evil", "{0} & ./evil", "{0}\n./evil", "{0} $(./evil)", "{0} `./evil`",
    "{0} <(./evil)", "{0} > /etc/evil", "{0} >> ~/.bashrc", "LD_PRELOAD=./e.so {0}", "PATH=. {0}", "X=1 {0}", "./{0}", "./evil {0}",
    "{0} > .git/config", "echo x | xargs {0}", "bash -c '{0}; ./evil'", "{0} > .agent/config.yaml", "{0} < .env", "sudo {0}",
    "cd /opt && {0} .. /x", "{0}\r./evil", "eval {0} x; ./evil",
)  # fmt: skip
_BENT = (
    "pytest -p evil", "pytest -pevil", "pytest -c /tmp/x.ini", "pytest --rootdir=/tmp/x", "pytest /tmp/evil.py", "pytest ../evil.py",
    "pytest ~/evil.py", "pytest -o python_files=x", "pytest --basetemp=src", "pytest --override-ini=a=b", "python -m pytest -p evil",
    "python -m pytest /tmp/x.py", "uv run pytest -p evil", "npm run build --prefix /tmp/x", "npm run build --script-shell=./evil",
    "npm run build --script-shell ./evil", "npm run build -C /tmp/x", "npm test --prefix ../x", "npm run builder", "npm run",
    "npm run deploy", "npm install evil", "git commit --template=/etc/x --output=y", "git commit -c core.pager=x", "git -c core.pager=x commit -m x",
    "git commit --no-verify", "git commit -F /etc/passwd", "git add --chmod=+x -A --pathspec-from-file=/etc/passwd", "git fetch --upload-pack=./evil",
    "git fetch ext::sh", "git -C /tmp/x commit -m x", "git --exec-path=. commit -m x", "git --git-dir=/tmp/x commit -m y",
    "make lint -f evil.mk", "make lint SHELL=./evil", "make -f evil.mk lint", "make -C /tmp/x lint", "make lint CC='./evil x'", "make evil",
    "make lint --eval='x:;./evil'", "cargo test --config build.rustc-wrapper='./evil'", "cargo test --manifest-path /tmp/x", "cargo +evil test",
    "cargo test -Zunstable", "cargo test --target-dir=/tmp", "go test -exec ./evil ./...", "go test -exec=./evil ./...", "go test -toolexec ./evil",
    "go test -C /tmp/x", "go test -vettool=./evil", "go test -overlay=x", "go test -modfile=/tmp/x", "go test -o /tmp/x", "ruff check --config /tmp/x .",
    "ruff check ../x", "ruff check --output-file=/etc/x .", "mypy --python-executable ./evil src", "mypy --config-file=/tmp/x src",
    "mypy --install-types src", "mypy --custom-typeshed-dir=x src", "tsc -p /tmp/x", "tsc --outDir /etc", "tsc --project=../x", "eslint -c /tmp/x.js src",
    "eslint --rulesdir ./evil src", "eslint --plugin evil src", "eslint -f ./evil.js src", "eslint --resolve-plugins-relative-to /tmp src",
    "eslint --parser ./evil src", "uv run --with evil pytest -q", "uv run python evil.py", "python -m evil", "python evil.py", "python -c 1",
)  # fmt: skip


def test_nothing_gets_round_a_kept_rule() -> None:
    allowed = kept()
    attempts = [shape.format(command) for command in _KEPT[:4] for shape in _ROUND] + list(_BENT)
    assert len(attempts) >= 120
    for rules in (
        allowed,
        (*allowed, "allow shell(npm test *)", "allow shell(git commit *)", "allow shell(git add *)"),
    ):
        given = ruled(*rules, mode="ask", sandboxed=False)
        assert [line for line in attempts if isinstance(run(line, given), Allow)] == []


def test_a_module_is_held_to_the_options_of_its_program() -> None:
    given = ruled("allow shell(python -m mypy *)", mode="ask", sandboxed=False)
    assert kind(run("python -m mypy src", given)) == "allow"
    for option in ("--custom-typeshed-dir=x", "--python-executable=./x", "--config-file=x"):
        assert kind(run(f"python -m mypy {option} src", given)) == "ask", option


def test_a_rule_that_names_an_option_covers_it() -> None:
    for rule, command in (
        ("pytest -p evil *", "pytest -p evil -q"), ("go test -exec ./x *", "go test -exec ./x ./..."), ("make -C sub *", "make -C sub all"),
    ):  # fmt: skip
        assert kind(run(command, ruled(f"allow shell({rule})", mode="ask", sandboxed=False))) == "allow", rule
    assert kind(run("pytest -p evil", ruled("allow shell", mode="ask", sandboxed=False))) == "allow"
