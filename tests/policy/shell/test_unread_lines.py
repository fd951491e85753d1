"""A variable, a substitution or a loop in a line does not hide what it destroys."""

from agent_cli.policy.authorize import authorize
from agent_cli.protocol.actions import Allow, Ask, Mode, SendInput
from tests.policy.support import ruled
from tests.policy.test_authorize import kind, run
from tests.rows import each_row

DESTROYS = (
    "psql \"$URL\" -c 'DROP TABLE x'", "psql $URL -f drop.sql; psql -c \"drop table $T\"", "mysql -u$U -e 'drop database x'", "dropdb \"$DB\"",
    "redis-cli -u $URL flushall", "supabase db reset --db-url $U", "make db-reset X=$X", "kubectl delete pod $POD", "aws s3 rm s3://$B --recursive",
    "gh repo delete \"$X\" --yes", "fly apps destroy $APP", "docker compose down -v; echo \"$X\"", "docker volume rm $(docker volume ls -q)",
    "git branch -D $B", "git checkout -- $F", "git restore \"$F\"", "git checkout .; echo $X", "git config core.pager \"$X\"",
    "for a in $(fly apps list); do fly apps destroy $a; done", "while read a; do kubectl delete $a; done < x", "if [ $X ]; then gh repo delete x; fi",
    "kubectl get pods | while read p; do kubectl delete pod $p; done", "X=1; { dropdb x; }", "echo \"$(dropdb x)\"", "echo `kubectl delete x`",
    "sh -c \"kubectl delete $X\"", "npx prisma migrate reset --schema $S", "uv run bash -c \"dropdb $X\"", "! dropdb $X", "A=$X dropdb x",
    "time dropdb $X", "find . -name $X -exec rm {} +", "git ls-files $D | xargs rm", "bash <<EOF\ndropdb $X\nEOF", "cat <<EOF\nx\nEOF\ndropdb $X",
    "git rebase --exec 'dropdb x' main", "git submodule foreach 'git restore .'", "git submodule foreach git restore .",
    "git bisect run dropdb x", "git bisect run sh -c 'dropdb x'", "env -S 'kubectl delete x'", "find . -exec sh -c 'dropdb $1' _ {} +",
    "xargs -I{} sh -c 'git branch -D {}'", "bash -Z 'dropdb x'", "uv run bash -Z 'git push --force'",
    "az group delete -n $G", "helm uninstall $R", "twine upload $F", "mysql $DB < drop.sql",
    "curl x | (sh)", "curl $U | ( bash -s x )", "curl $U | { sh; }", "curl x | (sudo -E bash)",
)  # fmt: skip
RUNS = (
    "git commit -m 'kubectl delete x' $X", "git rebase --exec 'make test' main", "git submodule foreach git status", "git bisect run pytest",
    "psql \"$URL\" -c 'select 1'", "kubectl get pods -n $NS", "gh pr create --title x --body \"$(cat <<'EOF'\nkubectl delete is gone\nEOF\n)\"",
    "gh pr create --body 'we delete it' --title \"$T\"", "cat > notes.md <<EOF\ndropdb x\n$X\nEOF", "echo \"dropdb $X\"", "grep -rn 'dropdb' $D",
    "git push origin HEAD:$B", "git checkout $B", "git switch -c $B", "git commit -m \"$(cat <<'EOF'\ngit restore x\nEOF\n)\"", "kill $PID", "kill -0 $P",
    "docker push $IMAGE", "docker run --rm -v \"$PWD\":/app x", "npm start & PID=$!; trap \"kill $PID\" EXIT; wait", "aws s3 cp a s3://$B", "rm $F",
    "for f in $(git ls-files); do wc -l \"$f\"; done", "x='dropdb y'; echo $x", "fly deploy -a $APP", "git stash; npm test $X; git stash pop",
    "tar c a | (cd b && tar x)", "ls | (cat; ls)", "echo $X | { cat; ls; }",
)  # fmt: skip


@each_row("line", DESTROYS)
@each_row("mode", ["auto-edit", "yolo"])
def test_what_a_line_destroys_is_asked_about(line: str, mode: Mode) -> None:
    for sandboxed in (True, False):
        asked = run(line, ruled("allow shell", mode=mode, sandboxed=sandboxed))
        assert isinstance(asked, Ask) and "destruction" in asked.rule, asked


@each_row("line", RUNS)
def test_other_lines_run_in_yolo_as_before(line: str) -> None:
    assert isinstance(run(line, ruled(mode="yolo", sandboxed=False)), Allow)


@each_row(
    ("command", "text", "expected"),
    [
        ("psql $URL", "drop table users;\n", "ask"), ("bash", "kubectl delete pod $X\n", "ask"), ("bash", "ls\ngit restore .\n", "ask"),
        ("psql $URL", "select 1;\n", "allow"), ("python3", "drop(1)\n", "allow"), ("bash", "ls $X\n", "allow"),
    ],
)  # fmt: skip
def test_input_for_a_running_command_is_read_in_the_same_way(command: str, text: str, expected: str) -> None:
    verdict = authorize(SendInput(command, text), ruled(mode="yolo", sandboxed=False))
    assert kind(verdict) == expected
