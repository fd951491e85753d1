"""A shopping basket: items with a price in cents and a quantity."""


class Basket:
    def __init__(self):
        self.items = {}

    def add(self, name, cents, quantity=1):
        """Put `quantity` pieces of an item into the basket."""
        if quantity < 1:
            raise ValueError("quantity must be at least 1")
        self.items[name] = (cents, quantity)

    def remove(self, name):
        """Take an item out, however many pieces there are."""
        del self.items[name]

    def total(self, discount_percent=0):
        """The sum in cents, rounded down, after a discount."""
        total = sum(cents for cents, quantity in self.items.values())
        return total - total * discount_percent // 100
