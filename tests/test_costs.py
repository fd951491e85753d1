"""The comparison of costs tells linear work from quadratic work."""

import pytest

from .costs import assert_cheaper, assert_linear


def test_linear_work_passes() -> None:
    assert_linear(lambda size: sum(range(size * 200)), 500)


def test_quadratic_work_fails() -> None:
    with pytest.raises(AssertionError, match="times as much"):
        assert_linear(lambda size: [sum(range(size)) for _ in range(size)], 400)


def test_what_costs_as_much_as_its_reference_is_not_cheaper() -> None:
    def work() -> int:
        return sum(range(100_000))

    assert_cheaper(lambda: None, work, share=0.5)
    with pytest.raises(AssertionError, match="of its reference"):
        assert_cheaper(work, work, share=0.5)
