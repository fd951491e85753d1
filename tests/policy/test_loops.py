"""Loops over known words and conditions are judged as the commands in them; whatever is not certain asks."""

import pytest

from agent_cli.policy.authorize import authorize
from agent_cli.policy.shell.line import parts_of
from agent_cli.policy.shell.parser import Unsure, parse
from agent_cli.policy.shell.wrappers import unwrap
from agent_cli.protocol.actions import RunCommand
from tests.policy.support import MODES, ruled
from tests.policy.test_authorize import ROOT, kind, run
from tests.rows import each_row

READ = [
    "for f in a.py b.py; do head -5 $f; done", 'for f in *.py; do echo "== $f"; done; ls', 'for f in src/*.py; do wc -l "$f"; done',
    "for f in a b\ndo\n  # each\n  cat $f\n  echo --\ndone", "for d in src tests; do ls $d; for f in a b; do cat $d/$f; done; done",
    "if test -f a; then cat a; fi", "if test -f a; then cat a; elif [ -d b ]; then ls b; else echo none; fi && pwd",
    "for f in 'a b' c; do cat \"$f\" \"x/${f}.txt\"; done | sort | head -3", "cd src && for f in a b; do cat $f; wc $f; done",
    "for f in a b; do if grep -q x $f; then echo $f; fi; done", "for f in a b; do cat $f || echo no $f; done; pwd",
    "for o in -c -l; do wc $o a; done", "ls && for f in a; do cat <$f 2>/dev/null; done", 'for f in a b; do find . -name "$f"; done', "for f in a; do ls $f .; done",
    "if ! grep -q x a; then echo none; fi", "! test -f a && ls", "for i in {1..3} x; do echo $i; done", "for i in $(seq 3) $(seq 2 4); do head -$i a; done",
    "[[ -f a ]] && cat a", "if [[ ! -d src ]]; then echo none; fi", "(cd src && ls -la)", "( ls; for f in a b; do cat $f; done )", "ls; ! ls | wc -l",
    "ls; (ls)", "(ls) && ls", "for d in a b; do (cd $d && ls); done", "ls || (pwd; cat a)", "(cat a) | sort", "if (test -f a); then cat a; fi",
    'ls; echo "exit: $?"', "ls | head; echo $? ${?} ${PIPESTATUS[0]}",
]  # fmt: skip
UNSURE = [
    "for f in *; do cat $f; done", 'for f in *.py; do cat "x/$f"; done', 'for f in *; do cat <"$f"; done', "for f; do cat $f; done",
    "for f in $(ls); do cat $f; done", "for f in $X; do cat $f; done", "for f in {a,b}; do cat $f; done", "for i in {01..3}; do cat $i; done", "for i in {1..9999}; do cat $i; done", "for i in {a..c}; do cat $i; done",
    "for i in {1..3}x; do cat $i; done", "for i in $(seq 3 1); do cat $i; done", "for i in $(seq -w 3); do cat $i; done", "for i in \"$(seq 3)\"; do cat $i; done",
    "[[ -v 'a[$(x)]' ]]", "[[ a -eq b ]]", "[[ $x ]]", "[[ -f a && -f b ]]", "[[ a == b* ]]", "[[ -f a ]", "[[ -f a ]] > x", "[[ -f ]]",
    "(ls) | sh", "(ls", "(ls))", "((ls))", "(ls) x", "(ls &) | cat", "( (ls) )", "()", "ls | (cat a)", "(ls) > x", "(ls) &", "( )", "(ls &) b", "ls (ls)",
    "(if ls; then cd a; fi)", "(for d in a b; do cd $d; done)",
    "for f in ; do cat x; done",
    "for f in ~/a; do cat $f; done", "for f in a; do cat $g; done", "for f in a; do cat $fx; done", "for f in a; do cat ${f%x}; done",
    "for f in 'a b'; do cat $f; done", "for f in 'a*'; do cat $f; done", "for f in ''; do cat $f; done", "for c in cat; do $c a; done",
    'for c in cat; do "$c" a; done', "for f in a; do f=/etc/shadow; cat $f; done", "for f in a; do read f; cat $f; done",
    "for f in a; do printf -v f b; cat $f; done", 'for f in *; do printf "$f" b; cat "$f"; done', "for f in -vf; do printf $f b; cat $f; done", "for f in a; do time printf -vf b; cat $f; done", "for f in a; do printf 'b%n' f; cat $f; done", "for f in a; do unset f; cat $f; done", "for f in a; do command read f; cat $f; done",
    "for f in a; do export f=b; cat $f; done", "IFS=/; for f in a/b; do cat $f; done", "set -f; for f in a; do cat $f; done",
    "for f in a; do eval ls; done", "for f in a; do . ./x; cat $f; done", "for f in a; do time -p . ./x; cat $f; done", "for f in a; do command . ./x; cat $f; done", "for f in a; do cat $f; done > out", "for f in a; do cat $f; done < in",
    "for f in a; do cat $f; done &", "for f in a; do cat $f & done", "for f in a; do cat $f; done |& sort", "for f in a; do cat $f; done | sh",
    "for f in a; do echo $f; done | xargs cat", "for f in a; do echo $f; done | sort | xargs cat", "ls | for f in a; do xargs cat; done",
    "for PATH in /tmp; do ls; done", "for IFS in x; do ls; done", "for path in a; do ls; done", "for http_proxy in a; do ls; done",
    "for npm_config_x in a; do ls; done", "for f in a; do for f in b; do ls; done; cat $f; done", "for f in a; do cd $f; ls; done",
    "cd x | for f in a; do ls; done", "cd x || for f in a; do ls; done", "if cd x; then cat y; fi",
    "if ls; then ls", "for f in a; do ls", "for f in a; do ls && done", "for f in a; do done", "if ls; then fi", "for f in a do ls; done",
    "for f in a; { ls; }", "while true; do ls; done", "until ls; do ls; done", "case a in a) ls;; esac", "select f in a; do ls; done",
    "for f in a; do break; done", "time for f in a; do ls; done", "for f in a; do (ls &); done", "for ((i=0;i<1;i++)); do ls; done",
    "for g in 'x secret'; do echo x; for f in $g; do cat \"$f\"; done; done", "echo x; for f in $?; do cat \"$f\"; done", "ls; echo x; [[ -f $? ]]",
    "for g in *; do for f in \"x$g\"; do cat \"$f\"; done; done",
    "for f in a; do cat \"$(echo $f)\"; done", "for f in a; do cat `echo $f`; done", "for f in a; do cat <<<$f; done",
    "for f in a; do x() { ls; }; done", "f\\or f in a; do ls; done; cat $f", "ls | ! wc", "! ! ls", "!", "! A=b ls", "cat $?", "echo x > $?", "echo $$", "echo $x", "ls $?; echo", "echo ${PIPESTATUS[x]}", "echo ${?:-$x}", "$? echo", "! $x",
    'for f in "x y"; do echo hi; for g in $f; do cat "$g"; done; done', 'echo a; for f in $?; do cat "$f"; done', "echo a; [[ -f $? ]]", "echo a; A=$? ls",
    "for g in a; do for f in ' -v g'; do printf $f b; cat $g; done; done", "for f in a; do printf 'b%jn' f; cat $f; done", "for f in a; do printf 'b%zn' f; cat $f; done",
    "for i in {1..1\u0663}; do cat $i; done", "for i in $(seq \u0663); do cat $i; done",
]  # fmt: skip


@each_row("line", READ)
def test_readers_in_loops_and_conditions_run_without_a_question(line: str) -> None:
    for mode in ("plan", "ask"):
        for sandboxed in (True, False):
            assert kind(run(line, ruled(mode=mode, sandboxed=sandboxed))) == "allow", (mode, sandboxed)


@each_row("line", UNSURE)
def test_whatever_is_not_certain_asks(line: str) -> None:
    assert kind(run(line, ruled(mode="plan"))) == "deny"
    for sandboxed in (True, False):
        assert kind(run(line, ruled("allow shell", "allow read", mode="ask", sandboxed=sandboxed))) != "allow"


@each_row(
    ("line", "denied"),
    [
        ("for f in a secret; do cat $f; done", "read(secret)"),
        ("if true; then cat secret; fi", "read(secret)"), ("for f in x; do git push $f; done", "shell(git push *)"),
        ("for c in push; do git $c; done", "shell(git push *)"), ("if ls; then ls; else git push; fi", "shell(git push *)"),
    ],
)  # fmt: skip
def test_rules_hold_for_each_command(line: str, denied: str) -> None:
    for mode in MODES:
        assert kind(run(line, ruled(f"deny {denied}", "allow shell", mode=mode))) in ("deny", "ask"), mode
    assert (
        kind(run(line.replace("secret", "other").replace("s*", "o*").replace("push", "log"), ruled(mode="ask")))
        == "allow"
    )


@each_row(
    "line",
    [
        "for f in -o; do sort $f out in; done", "for f in a b; do rm $f; done", "for f in *; do sort -o \"$f\" x; done",
        "for f in 'rm -rf x'; do sh -c \"$f\"; done", "if true; then touch x; fi", "for f in a; do echo x > $f; done",
        "for f in ./evil; do env $f; done", 'for f in *; do sh -c "$f"; done', 'for f in *; do env "$f"; done',
    ],
)  # fmt: skip
def test_what_changes_something_asks_in_a_loop_too(line: str) -> None:
    assert kind(run(line, ruled(mode="plan"))) == "deny"
    assert kind(run(line, ruled(mode="ask"))) == "ask"


def test_destruction_in_a_loop_is_seen_for_each_word() -> None:
    assert run("for d in build ~; do rm -rf $d; done", ruled(mode="yolo")).rule != "mode yolo"
    assert kind(run("for d in a ../..; do rm -rf $d; done", ruled(mode="yolo"))) == "ask"
    assert kind(run("for d in a b; do rm -rf $d; done", ruled(mode="yolo"))) == "allow"


@each_row("pattern", ["s*", ".en*", "*", "../*", "/etc/pass*", "-*", "src/*.py", "[ab]"])
def test_a_pattern_is_judged_as_it_is_without_a_loop(pattern: str) -> None:
    for rules in ((), ("deny read(secret)",), ("ask read(src/**)",)):
        for sandboxed in (True, False):
            for program in ("cat", "head -2", "sort", "grep x"):
                given = ruled(*rules, mode="ask", sandboxed=sandboxed)
                loop = run(f'for f in {pattern}; do {program} "$f"; done', given)
                assert (kind(loop), loop.rule) == (kind(plain := run(f"{program} {pattern}", given)), plain.rule)


@each_row("altered", ["IFS", "f", "other"])
def test_after_a_change_of_variables_a_loop_is_not_certain(altered: str) -> None:
    for line, wanted in (
        ("for f in a; do cat $f; done", "ask"),
        ("cat a; cat b", "allow" if altered != "IFS" else "ask"),
    ):
        assert kind(authorize(RunCommand(line, ROOT, (altered,)), ruled(mode="ask"))) == wanted


@pytest.mark.parametrize("facts", [{"functions": ("seq",)}, {"shadowed": ("seq",)}, {"shadowed": ("*",)}])
@pytest.mark.parametrize(
    "line", ["for i in $(seq 2); do cat $i; done", "sh -c 'for i in $(seq 2); do cat $i; done'"]
)
def test_numbers_are_known_only_if_seq_is_the_program_of_the_machine(
    line: str, facts: dict[str, tuple[str, ...]]
) -> None:
    given = ruled("deny read(secret)", "allow shell", mode="yolo", sandboxed=False)
    assert kind(authorize(RunCommand(line, ROOT), given)) == "allow"
    assert kind(authorize(RunCommand(line, ROOT, **facts), given)) == "ask"


def test_a_question_names_each_command_once_for_each_word() -> None:
    parts = parts_of("for f in a b; do make $f; done | tail -3", ROOT, ruled(mode="ask"))
    assert [shown for shown, _ in parts] == ["make a", "make b", "tail -3"]


@pytest.mark.parametrize(
    "line",
    [
        f"for f in {'a ' * 200}; do ls; ls; done",
        "for f in a b c d e f g; do " * 5 + "ls; " + "done; " * 5,
        "if ls; then " * 400 + "ls; " + "fi; " * 400,
        "if ls; then ls; " + "elif ls; then ls; " * 400 + "fi",
        "for f in a b; do " + "[[ -f a ]]; " * 200 + "done",
        "for f in {1..290}; do cat " + "$f " * 3000 + "; done",
        "for f in " + "{1..9999} " * 900 + "; do ls; done",
        f"for f in {'a' * 900}; do for g in {'$f' * 900}; do for h in {'$g' * 900}; do echo {'$h' * 900}; done; done; done",
    ],
)
def test_what_would_be_very_many_commands_is_not_read(line: str) -> None:
    with pytest.raises(Unsure):
        parse(line[:10_000])


@pytest.mark.parametrize(
    "line",
    [
        "for i in {1..290}; do sh -c 'for j in {1..290}; do ls; done'; done",
        "for i in {1..290}; do sh -c \"sh -c 'fo''r j in {1..290}; do ls; done'\"; done",
        "for i in a; do find x -exec sh -c 'for j in a; do ls; done' \\;; done",
    ],
)  # fmt: skip
def test_a_loop_in_the_script_of_a_loop_is_not_counted_out(line: str) -> None:
    with pytest.raises(Unsure, match="in the script of a loop"):
        [unwrap(part) for part in parse(line)]
    assert kind(run("for i in a; do sh -c 'ls; ls'; done", ruled("allow shell", mode="ask"))) == "allow"


def test_a_change_of_directory_in_a_subshell_ends_with_it() -> None:
    given = ruled("deny read(sub/secret)", "deny read(secret)", mode="yolo")
    for line, wanted in (
        ("(cd sub && ls); cat other", "allow"),
        ("(cd sub && ls); cat secret", "deny"),
        ("(cd sub && cat secret)", "deny"),
        ("ls && (cd .. && rm -rf x) && ls", "ask"),
        ("(ls ~)", "allow"),
        ("(cd .. && ls) && rm -rf x", "allow"),
        ("for d in sub; do (cd $d && cat secret); done", "deny"),
        ("(cd sub; cat other) || cat secret", "deny"),
    ):
        assert kind(run(line, given)) == wanted, line


def test_a_server_is_started_behind_a_subshell_and_asked_for_a_page() -> None:
    line = "make | tail -1 && (timeout 6 ./serve >/tmp/log 2>&1 &); sleep 3; curl -s http://127.0.0.1:8765/"
    assert kind(run(line, ruled(mode="yolo"))) == "allow"
    assert kind(run(f"{line} | sh", ruled(mode="yolo"))) == "ask"
