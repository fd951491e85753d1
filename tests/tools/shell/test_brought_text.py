"""Which commands bring text of others into the conversation."""

from agent_cli.tools.shell.brought_text import brings_text
from tests.costs import assert_linear
from tests.rows import each_row


@each_row(
    ("command", "program"),
    [
        ("curl https://example.org", "curl"), ("/usr/bin/curl example.org", "curl"), ("cd a && wget x", "wget"),
        ("TOKEN=x gh pr view 3", "gh"), ("sudo -u me curl x", "curl"), ("timeout -s KILL 5 curl x", "curl"),
        ("xargs -I % curl %", "curl"), ("bash -c 'curl x'", "curl"), ('echo "$(curl x)"', "curl"), ("echo `curl x`", "curl"),
        ("if curl x; then ls; fi", "curl"), ("for u in a b; do curl $u; done", "curl"), ("(ssh h ls)", "ssh"), ("{ nc h 1; }", "nc"),
        ("cat urls | xargs curl", "curl"), ("find . -exec curl {} +", "curl"), ("'curl' x", "curl"), ('"/usr/bin/ssh" h', "ssh"),
        ("cat <<EOF\ndon't\nEOF\ncurl x; echo 'a'", "curl"), ("echo don\\'t; curl x; echo it\\'s", "curl"),
        ("# it's\ncurl x\n# isn't", "curl"), ("eval 'curl x'", "curl"), ("X='a b' curl x", "curl"),
        ("c=curl; $c x", "curl"), ("${CURL:-curl} x", "curl"), ("python3 -c 'import os; os.system(\"curl x\")'", "curl"),
        ("perl -e 'print `curl x`'", "curl"), ("tmux new -d 'curl x'", "curl"),
        ("docker run alpine wget x", "wget"), ("sleep 1 & ssh h", "ssh"), ("curl localhost:1 https://example.org", "curl"),
        ("curl --version; curl x", "curl"), ("curl -V x", "curl"), ("echo $(ssh h --version)", "ssh"),
        ("curl -v `cat u`", "curl"), ("wget -v {https://a.example,https://b.example}", "wget"), ("curl -v 2>(cat) https://a.example", "curl"),
    ],
)  # fmt: skip
def test_a_program_that_fetches_is_found_wherever_it_is_run(command: str, program: str) -> None:
    assert brings_text(command) == f"the output of {program}"


@each_row(
    "command",
    [
        "ls tests/ssh", "git commit -m 'fix ssh and curl handling'", 'git commit -m "nc: curl"', "git push gh main",
        "ssh-keygen -t ed25519 -N '' -f k", "ls -la ~/.ssh", "grep -rn curl src", "pytest tests/ssh -k ftp", "which curl",
        "cat gh.md", "make curl", "python3 nc.py", "curl http://localhost:3000/x", "curl -s http://127.0.0.1:1/", "", "echo ssh",
        "ssh -V 2>&1 | head -1", "node -v && curl --version; wget --help", "(curl --version)", "{ curl -V; }",
    ],
)  # fmt: skip
def test_a_name_that_is_no_program_brings_nothing(command: str) -> None:
    assert brings_text(command) == ""


def test_a_long_line_takes_no_longer_than_its_length() -> None:
    assert_linear(lambda size: brings_text("x curl " + "'a\"`$(sudo;" * size), 3_000)
