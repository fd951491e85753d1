"""Arguments and shell commands of texts that stand for prompts, in the words of each product."""

import subprocess

from agent_cli.extensions.expansion import expand, with_quotes, with_variables
from agent_cli.extensions.places import Product
from agent_cli.policy.rules.foreign_rules import allow_rules
from tests.costs import assert_linear
from tests.rows import each_row


@each_row(
    ("product", "text", "argument", "said"),
    [
        ("agent", "Fix $1 and $2", "a 'b c'", "Fix a and b c"),
        ("agent", "All: $ARGUMENTS, $$1", "a b", "All: a b, $1"),
        ("agent", "Tidy up.\n", "soon", "Tidy up.\n\nsoon"),
        ("agent", "Costs $5 and $x", "", "Costs  and $x"),
        ("agent", "Look at it.", "", "Look at it."),
        ("agent", "Do $ARGUMENTS now", "a  b 'c", "Do a  b 'c now"),
        ("agent", "$1-$2-$3", "one 'two words'", "one-two words-"),
        ("agent", "$1 and $ARGUMENTS", "$2 $$ $ARGUMENTS", "$2 and $2 $$ $ARGUMENTS"),
        ("agent", "costs $$1, $$ARGUMENTS $10", "x", "costs $1, $ARGUMENTS x0"),
        ("agent", "$HOME $ARGUMENTSX $0 $", "", "$HOME $ARGUMENTSX $0 $"),
        ("agent", "$1|$2", "it's late", "it's|late"),
        ("agent", "pay $$", "5", "pay $\n\n5"),
        ("claude", "First $0, then $1", "a b", "First a, then b"),
        ("claude", "First $1, then $2", "a b", "First a, then b"),
        ("claude", "At $ARGUMENTS[1] of $ARGUMENTS", "a b", "At b of a b"),
        ("claude", r"Pay \$1 for $0", "it", "Pay $1 for it"),
        ("claude", "echo $$ of $ARGUMENTS", "x", "echo $$ of x"),
        ("claude", "In ${CLAUDE_SKILL_DIR}, ${OTHER}", "", "In /s, ${OTHER}"),
        ("claude", r'run "${CLAUDE_SKILL_DIR//\\//}/x" ${OTHER//\\//}', "", r'run "/s/x" ${OTHER//\\//}'),
        ("claude", "$issue by $who", "12 Ann", "12 by Ann"),
        ("codex", "Review $FILE for $1", "FILE=a.py x", "Review a.py for FILE=a.py"),
        ("opencode", "Name $1, text $2", "n a b c", "Name n, text a b c"),
        ("gemini", "Explain {{args}} in @{docs/a b.md}", "this", 'Explain this in @"docs/a b.md"'),
        ("gemini", "Explain.", "this", "Explain.\n\nthis"),
        ("cursor", "Review the code.", "now", "Review the code.\n\nnow"),
    ],
)
def test_arguments_take_their_places(product: Product, text: str, argument: str, said: str) -> None:
    variables = {"CLAUDE_SKILL_DIR": "/s"}
    assert expand(text, argument, product, names=("issue", "who"), variables=variables).text == said


def test_commands_are_found_where_they_stand() -> None:
    text = "State: !`git status -s` and\n!`git log $1`\n```!\nmake $1\nls\n```\nend"
    found = expand(text, "v1", "claude")
    assert [each.command for each in found.insertions] == ["git status -s", "git log v1", "make v1\nls"]
    assert all(found.text.startswith(each.marker, each.at) for each in found.insertions)


def test_commands_of_gemini_quote_their_arguments() -> None:
    found = expand("Look:\n!{grep -r {{args}} . | awk '{print $1}'}\nand {{args}}", "a; rm -rf /", "gemini")
    assert [each.command for each in found.insertions] == ["grep -r 'a; rm -rf /' . | awk '{print $1}'"]
    assert found.text.endswith("and a; rm -rf /")


@each_row(
    "text",
    [
        "an inline `!x` and x!`y`",
        "```\n!`touch a`\n```",
        "~~~sh\n!`touch a`\n~~~",
        "````\n```\n!`touch a`\n````",
        "````\n!`touch a`\n```",
        "```\n!`touch a`",
        "```!\ntouch a",
        "!` `` ",
        "wow!`ls`",
    ],
)
def test_what_only_looks_like_a_command_is_not_run(text: str) -> None:
    assert expand(text, "", "claude").insertions == ()


@each_row("argument", ["!`touch x`", "$ARGUMENTS", "!{touch x}", "```!\ntouch x\n```"])
@each_row("product", ["agent", "claude", "codex", "gemini", "opencode"])
def test_arguments_run_nothing(product: Product, argument: str) -> None:
    found = expand("Do $ARGUMENTS {{args}} with !`git status` !{git diff}", argument, product)
    assert [each.command for each in found.insertions] == (["git diff"] if product == "gemini" else ["git status"])
    assert all(found.text.startswith(each.marker, each.at) for each in found.insertions)
    assert argument in found.text


@each_row("folder", ["/plug/*", "/plug/a?", "/plug/[ab]", "/work/x*/y"])
def test_a_folder_with_the_name_of_a_pattern_widens_no_rule(folder: str) -> None:
    rule = "Bash(${ROOT}/run.sh --in ${HERE}:*)"
    assert with_variables(rule, {"ROOT": folder, "HERE": "/work"}) == "Bash(${ROOT}/run.sh --in /work:*)"


def test_a_folder_at_the_beginning_of_a_rule_on_files_is_no_folder_of_the_project() -> None:
    folder = {"ROOT": "/plug in"}
    rules = ("Read(${ROOT}/docs/**)", "Edit( ${ROOT}/x )", "Bash(${ROOT}/run.sh:*)", "Read(docs/${ROOT})")
    put = [with_variables(rule, folder) for rule in rules]
    assert put == [
        "Read(//plug in/docs/**)",
        "Edit( //plug in/x )",
        "Bash(/plug in/run.sh:*)",
        "Read(docs//plug in)",
    ]
    assert list(allow_rules(put[:1])) == ["read(/plug in/docs/**)"]


@each_row(
    "line",
    [
        "echo ${R}/x", 'echo "${R}/x"', "echo '${R}/x'", "# don't\necho ${R}/x", 'echo "it\'s" ${R}/x',
        "echo it\\'s ${R}/x", "echo a#b'c' ${R}/x",
    ],
)  # fmt: skip
def test_a_folder_is_one_word_of_a_command_whatever_its_name(line: str) -> None:
    folder = "/tmp/a b'c\"$d`e;f"
    (found,) = expand(f"```!\n{line}\n```", "", "claude", variables={"R": folder}).insertions
    done = subprocess.run(["sh", "-c", found.command], capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f"{folder}/x\n") and not done.stderr
    (plain,) = expand(f"```!\n{line}\n```", "", "claude", variables={"R": "/usr/plain"}).insertions
    assert plain.command == line.replace("${R}", "/usr/plain")


def test_variables_of_a_command_line_are_quoted_where_they_must_be() -> None:
    spaced = {"R": "/a b", "PLAIN": "/usr"}
    line = """sh ${R}/x "${R}/y" '${R}' $R/z $RX ${PLAIN}/w"""
    assert with_quotes(line, spaced) == """sh "${R}"/x "${R}/y" '${R}' "$R"/z $RX ${PLAIN}/w"""
    assert with_quotes(line, {"R": "/usr"}) == line


@each_row(
    ("product", "piece"),
    [("claude", "```x\n"), ("claude", "~~~~~~~~x\n"), ("claude", "```!\n"), ("claude", " !`"), ("gemini", "!{")],
)
def test_no_text_keeps_the_program_busy(product: Product, piece: str) -> None:
    assert_linear(lambda times: expand(piece * times, "", product), 300)
