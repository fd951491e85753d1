import unittest

from paging import pages


class Pages(unittest.TestCase):
    def test_full_pages(self):
        self.assertEqual(pages([1, 2, 3, 4], 2), [[1, 2], [3, 4]])
