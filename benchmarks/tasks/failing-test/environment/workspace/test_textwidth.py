import unittest

from textwidth import fit, width


class Width(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(width("abc"), 3)

    def test_wide_and_fullwidth(self):
        self.assertEqual(width("日本"), 4)
        self.assertEqual(width("ＡＢ"), 4)

    def test_combining_marks_take_no_cell(self):
        self.assertEqual(width("e\u0301"), 1)


class Fit(unittest.TestCase):
    def test_exact(self):
        self.assertEqual(fit("abc", 3), "abc")

    def test_wide_signs_are_not_cut(self):
        self.assertEqual(fit("日本", 3), "日")

    def test_marks_stay_with_their_letter(self):
        self.assertEqual(fit("e\u0301f", 1), "e\u0301")

    def test_nothing_fits(self):
        self.assertEqual(fit("abc", 0), "")
