"""Simple LaTeX as Unicode that can be read and copied: `\\frac{a}{b} \\le x^2` becomes `a/b ≤ x²`.

All or nothing: a formula with an unknown element stays as written. The result is a single line without layout.
"""

import re

_TOKEN = re.compile(r"\\(?:[A-Za-z]+|.)|[\s\S]")
_MAX_CHARS = 2000
_MAX_DEPTH = 12
_DELIMITERS = re.compile(r"(\$\$|\$|\\\(|\\\[)([\s\S]*?)(\$\$|\$|\\\)|\\\])")
_PRODUCT = re.compile(r"[^\s+\-−±=<>≤≥≠≈/*·×÷,]+|\([^()]*\)")
"""Numerators that need no brackets."""
_BASE = re.compile(r"(?:^|[^A-Za-z])[A-Za-z]$|[^A-Za-z\s]$|(?:sin|cos|tan|log|ln|lim|min|max|sup|inf)$")
"""A valid base of a script: not a word, so that `$HOME_DIR/$x` stays unchanged."""


def _pairs(text: str) -> dict[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_SYMBOLS = _pairs(r"""
    alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ
    lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ upsilon υ phi φ varphi φ chi χ psi ψ omega ω Gamma Γ
    Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω infty ∞ sum ∑ prod ∏ int ∫ oint ∮
    partial ∂ nabla ∇ ldots … dots … cdots ⋯ forall ∀ exists ∃ neg ¬ lnot ¬ emptyset ∅ varnothing ∅ ell ℓ
    hbar ℏ Re ℜ Im ℑ angle ∠ degree ° prime ′ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ vert |
    Vert ‖ lvert | rvert | dagger † aleph ℵ { { } } % % $ $ # # & & _ _
""")
_OPERATORS = _pairs(r"""
    times × cdot · div ÷ pm ± mp ∓ ast ∗ circ ∘ oplus ⊕ otimes ⊗ le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ lt < gt >
    ll ≪ gg ≫ approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅ propto ∝ to → rightarrow → leftarrow ← gets ←
    leftrightarrow ↔ mapsto ↦ Rightarrow ⇒ implies ⇒ Leftarrow ⇐ Leftrightarrow ⇔ iff ⇔ longrightarrow ⟶
    in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ cup ∪ cap ∩ setminus ∖ land ∧ wedge ∧ lor ∨
    vee ∨ mid | parallel ∥ perp ⊥ bmod mod
""")
_FUNCTIONS = frozenset("sin cos tan cot arcsin arccos arctan sinh cosh tanh log ln lg exp lim min max sup inf "
                       "det dim gcd arg Pr".split())  # fmt: skip
_SPACES = {",": " ", ";": " ", ":": " ", " ": " ", "quad": "  ", "qquad": "  ", "!": ""}
_DROPPED = frozenset("left right big Big bigl bigr Bigl Bigr displaystyle limits".split())
_PLAIN = frozenset("text textrm textbf textit mathrm mathbf mathit mathsf operatorname boldsymbol".split())
_DOUBLE = dict(zip("CEHNPQRZ", "ℂ𝔼ℍℕℙℚℝℤ", strict=True))
_ROOTS = {"3": "∛", "4": "∜", "2": "√"}
_SCRIPTS = {
    "^": dict(zip("0123456789+-−=()abcdefghijklmnoprstuvwxyzT′'∗*",
                  "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᵀ′′**", strict=True)),
    "_": dict(zip("0123456789+-−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True)),
}  # fmt: skip
_ATOM = re.compile(
    rf"\d+(?:\.\d+)?|\w[{re.escape(''.join(''.join(each.values()) for each in _SCRIPTS.values()))}]*|\([^()]*\)"
)
"""Denominators and radicands that need no brackets."""


class _UnknownError(Exception):
    """The formula contains an unknown element."""


def readable(formula: str) -> str:
    """Convert a formula with its delimiters to Unicode without them; return it unchanged if it is not
    understood."""
    found = _DELIMITERS.fullmatch(formula)
    if found is None or len(formula) > _MAX_CHARS or not _is_math(found[1], found[2]):
        return formula
    try:
        text = _Reader(found[2]).read()
    except _UnknownError:
        return formula
    return text or formula


def _is_math(opening: str, body: str) -> bool:
    """Return True for LaTeX, but not for `$HOME/$USER` or an escaped bracket such as `\\[x\\] done`."""
    if re.search(r"[\\^_]", body):
        return True
    return opening != "$" and not re.search("[A-Za-z]{2}", body) and (opening != "\\[" or "=" in body)


class _Reader:
    """Converts a formula, token by token."""

    def __init__(self, source: str) -> None:
        self._tokens = [each.group() for each in _TOKEN.finditer(source)]
        self._at = 0
        self._depth = 0

    def read(self) -> str:
        """Return the whole formula on one line."""
        text = self._group(closing="")
        return " ".join(text.split())

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise _UnknownError
        self._at += 1
        return self._tokens[self._at - 1]

    def _group(self, closing: str) -> str:
        """Return the text up to a closing bracket, or to the end."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _UnknownError
        text = ""
        while self._at < len(self._tokens) or closing:
            token = self._next()
            if token == closing:
                break
            text += self._piece(token, text)
        self._depth -= 1
        return text

    def _piece(self, token: str, before: str) -> str:
        if token in _SCRIPTS:
            return self._script(token, before)
        if token.startswith("\\"):
            return self._command(token[1:], before)
        if token == "{":
            return self._group("}")
        if token in "}$&#%~`" or (token == "*" and before.endswith("*")):
            raise _UnknownError
        return token

    def _command(self, name: str, before: str) -> str:
        if name in _OPERATORS:
            return f" {_OPERATORS[name]} "
        if name in _FUNCTIONS:
            return " " * before[-1:].isalnum() + name
        if (known := {**_SPACES, **_SYMBOLS}.get(name)) is not None:
            return known
        if name in _DROPPED:
            if name in ("left", "right") and self._tokens[self._at : self._at + 1] == ["."]:
                self._at += 1  # the dot is an invisible bracket
            return ""
        if name in _PLAIN:
            return self._argument()
        if name in ("frac", "dfrac", "tfrac"):
            return f"{_in_brackets(self._argument(), _PRODUCT)}/{_in_brackets(self._argument())}"
        if name == "sqrt":
            return self._root()
        if name == "mathbb" and (letter := _DOUBLE.get(self._argument())):
            return letter
        raise _UnknownError

    def _argument(self) -> str:
        while self._at < len(self._tokens) and self._tokens[self._at].isspace():
            self._at += 1
        if self._next() != "{":
            raise _UnknownError
        return " ".join(self._group("}").split())

    def _root(self) -> str:
        sign = "√"
        if self._tokens[self._at : self._at + 1] == ["["]:
            self._at += 1
            sign = _ROOTS.get(self._group("]"), "")
        if not sign:
            raise _UnknownError
        return sign + _in_brackets(self._argument())

    def _script(self, kind: str, before: str) -> str:
        if not _BASE.search(before):
            raise _UnknownError
        token = self._next()
        text = self._group("}").strip() if token == "{" else self._piece(token, "").strip()
        tight = re.sub(r"\s", "", text)
        follows = "".join(self._tokens[self._at : self._at + 1])
        if token != "{" and token.isalpha() and follows.isalpha():
            raise _UnknownError  # a name such as `a_bc`
        if tight and all(char in _SCRIPTS[kind] for char in tight):
            return "".join(_SCRIPTS[kind][char] for char in tight)
        return f"{kind}{text}" if len(text) == 1 else f"{kind}({text})"


def _in_brackets(text: str, unless: re.Pattern[str] = _ATOM) -> str:
    return text if unless.fullmatch(text) else f"({text})"
