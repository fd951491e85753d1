import unittest

from basket import Basket


class BasketTest(unittest.TestCase):
    def setUp(self):
        self.basket = Basket()

    def test_quantity_counts(self):
        self.basket.add("apple", 30, quantity=3)
        self.basket.add("bread", 250)
        self.assertEqual(self.basket.total(), 340)

    def test_adding_twice_adds_up(self):
        self.basket.add("apple", 30)
        self.basket.add("apple", 30, quantity=2)
        self.assertEqual(self.basket.items["apple"], (30, 3))

    def test_discount(self):
        self.basket.add("bread", 250)
        self.assertEqual(self.basket.total(discount_percent=10), 225)

    def test_nothing_is_not_a_quantity(self):
        with self.assertRaises(ValueError):
            self.basket.add("apple", 30, quantity=0)


if __name__ == "__main__":
    unittest.main()
