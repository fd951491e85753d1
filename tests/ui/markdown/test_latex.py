"""LaTeX in answers: what is simple becomes text that can be read and copied, all else stays as it is."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.ui.markdown.blocks import StyledBlocks
from agent_cli.ui.markdown.latex import readable
from agent_cli.ui.text.theme import NONE
from tests.fuzz import tries
from tests.rows import each_row


@each_row(
    ("formula", "text"),
    [
        (r"\(a\)", "a"),
        (r"$x^2 + y^2 \le r^2$", "x² + y² ≤ r²"),
        (r"\(a\leq b\)", "a ≤ b"),
        (r"$\frac{a}{b}$", "a/b"),
        (r"$\frac{a+b}{2c}$", "(a+b)/(2c)"),
        (r"$\frac{1}{x_1^2}$", "1/x₁²"),
        ("$$\n\\sum_{i=1}^{n} i\n= \\frac{n(n+1)}{2}\n$$", "∑ᵢ₌₁ⁿ i = (n(n+1))/2"),
        (r"$\sqrt{x} + \sqrt{2x} + \sqrt[3]{y}$", "√x + √(2x) + ∛y"),
        (r"$x \in \mathbb{R}$", "x ∈ ℝ"),
        (r"\[\lim_{x \to 0} \frac{\sin x}{x} = 1\]", "lim_(x → 0) (sin x)/x = 1"),
        (r"$O(n\log n)$", "O(n log n)"),
        (r"$\left( \frac{1}{2} \right)^2$", "( 1/2 )²"),
        (r"$e^{i\pi} + 1 = 0$", "e^(iπ) + 1 = 0"),
        (r"$a_{ij} \cdot x_b$", "aᵢⱼ · x_b"),
        (r"$\text{if } x \ne \infty$", "if x ≠ ∞"),
        (r"$x_1, \ldots, x_n$", "x₁, …, xₙ"),
        (r"$\{a\}$", "{a}"),
    ],
)
def test_simple_formulas_can_be_read(formula: str, text: str) -> None:
    assert readable(formula) == text
    assert StyledBlocks(NONE).block(f"see {formula}, *there*", 99, None) == [f"see {text}, there"]


@each_row(
    "formula",
    [
        r"$\foo{x}$", r"$x^2 + \foo$", r"$$\begin{matrix}1 & 2\end{matrix}$$", r"\(a \\ b\)", r"$\frac12$",
        r"$\frac{1}$", r"$x^$", r"$^2$", r"$\sqrt[5]{x}$", r"$a}$", r"${a$", r"$x$", r"\[x\]", r"\(see below\)", r"$HOME/$", r"$MY_DIR/$",
        r"$FOO_BAR$", r"$my_x/$", r"$a_bc$", "$" + "{" * 500 + "x_1" + "}" * 500 + "$", "$x^2" + "x" * 5000 + "$",
    ],
)  # fmt: skip
def test_anything_else_stays_as_it_is(formula: str) -> None:
    assert readable(formula) == formula


def test_code_is_never_touched() -> None:
    blocks = StyledBlocks(NONE)
    assert blocks.block(r"`$x^2$` and `\(a\)`", 99, None) == [r"`$x^2$` and `\(a\)`"]
    assert blocks.block("```\n$x^2$\n```", 99, None) == ["```", "$x^2$", "```"]


_PIECES = [
    "\\",
    "{",
    "}",
    "^",
    "_",
    "x",
    "2",
    " ",
    "frac",
    "\\sqrt",
    "[",
    "]",
    "\\left.",
    "\\to",
    "\\text",
    "$",
    "*",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=30).map("".join), st.sampled_from(["$ $", "$$ $$", "\\( \\)"]))
@settings(max_examples=tries(300), deadline=None)
def test_any_formula_can_be_read(source: str, around: str) -> None:
    first, last = around.split(" ")
    assert readable(f"{first}{source}{last}")
