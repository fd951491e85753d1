"""Find evidence for an undeclared encoding: its bytes must be plausible text in exactly one encoding. Weak
evidence is ignored, since a wrong guess would be written to somebody's file."""

import re
from collections.abc import Callable

_SAMPLE_BYTES = 1 << 17
_MIN_WIDE = 6
_MIN_WESTERN = 5
_PLAUSIBLE = 0.93
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_KANA = re.compile(r"[\u3041-\u3096\u30a1-\u30fc]")
_JAPANESE = re.compile(r"[\u3000-\u3002\u300c-\u300f\u30fb\u30fc\u3041-\u3096\u30a1-\u30fa\uff01-\uff5e]")
_HANGUL = re.compile(r"[\uac00-\ud7a3]")
_CJK_MARKS = re.compile(r"[\u3000-\u3011\u2018-\u201d\u2026\uff01-\uff5e]")

_WESTERN = tuple(
    frozenset(letters + letters.upper() + "«»‘’“”–—…°§€£²³·´¿¡ªº\u00a0©®×")
    for letters in (
        "äöüß", "àâæçéèêëîïôœùûüÿ", "áéíóúüñ", "áâãàçéêíóôõúü", "àèéìíîòóùú", "åäöéæø", "æøåéóòâôê",
        "áéíóúýþæðö", "áàâäçéèêëíìîïóòôöúùûüñ",
    )
)  # fmt: skip
"""Letters used by one language each; Central European text read as Western has letters from several."""


def evident_encoding(data: bytes) -> str:
    """Return the only encoding in which `data` (not UTF-8) is plausible text; empty if there is none or
    several."""
    sample = data[:_SAMPLE_BYTES]
    plausible = [name for name, test in _TESTS if _passes(sample, len(sample) < len(data), name, test)]
    return plausible[0] if len(plausible) == 1 else ""


def _passes(sample: bytes, cut: bool, name: str, test: Callable[[str, bytes], bool]) -> bool:
    for shorter in range(4 if cut else 1):
        try:
            text = sample[: len(sample) - shorter].decode(name)
        except UnicodeDecodeError:
            continue
        return test(text, sample)
    return False


def _share(pattern: re.Pattern[str], text: str) -> float:
    wide = len(_NOT_ASCII.findall(text))
    return len(pattern.findall(text)) / wide if wide else 0.0


def _enough(text: str) -> bool:
    return len(_NOT_ASCII.findall(text)) >= _MIN_WIDE


def _is_japanese(text: str, sample: bytes) -> bool:
    """Return True for text with enough kana, no half-width kana, and mostly characters of the first level."""
    if not _enough(text) or re.search(r"[\uff61-\uff9f]", text) or _share(_KANA, text) < 0.2:
        return False
    common = sum(_first_level(char, "euc_jp", 0xB0, 0xCF) for char in _NOT_ASCII.findall(text))
    marks = len(_JAPANESE.findall(text))
    return (common + marks) / len(_NOT_ASCII.findall(text)) >= _PLAUSIBLE


def _first_level(char: str, name: str, first: int, last: int) -> bool:
    """Return True for a frequent character of a standard, which lists these first."""
    if not "\u4e00" <= char <= "\u9fff":
        return False
    try:
        return first <= char.encode(name)[0] <= last
    except UnicodeEncodeError:
        return False


def _han(name: str, first: int, last: int) -> Callable[[str, bytes], bool]:
    def test(text: str, sample: bytes) -> bool:
        chars = _NOT_ASCII.findall(text)
        common = sum(_first_level(char, name, first, last) for char in chars)
        return (
            _enough(text)
            and not _in_words(text)
            and (common + len(_CJK_MARKS.findall(text))) / len(chars) >= _PLAUSIBLE
        )

    return test


def _is_korean(text: str, sample: bytes) -> bool:
    return (
        _enough(text)
        and _in_words(text)
        and _share(_HANGUL, text) >= 0.8
        and _share(_HANGUL, text) + _share(_CJK_MARKS, text) > 0.9
    )


def _in_words(text: str) -> bool:
    """Return True if spaces regularly separate wide characters, as in Korean and not in Chinese."""
    return len(re.findall(r"[^\x00-\x7f] (?=[^\x00-\x7f])", text)) * 12 > len(_NOT_ASCII.findall(text))


def _is_western(text: str, sample: bytes) -> bool:
    """Return True if non-ASCII characters are letters of one language, mostly isolated between ASCII letters."""
    chars = _NOT_ASCII.findall(text)
    if len(chars) < _MIN_WESTERN or not any(letters.issuperset(chars) for letters in _WESTERN):
        return False
    runs = re.findall(rb"[\x80-\xff]+", sample)
    return sum(len(run) == 1 for run in runs) >= 0.75 * len(runs)


_TESTS: tuple[tuple[str, Callable[[str, bytes], bool]], ...] = (
    ("cp932", _is_japanese),
    ("euc_jp", _is_japanese),
    ("gb18030", _han("gb2312", 0xB0, 0xD7)),
    ("big5", _han("big5", 0xA4, 0xC6)),
    ("euc_kr", _is_korean),
    ("cp1252", _is_western),
)
