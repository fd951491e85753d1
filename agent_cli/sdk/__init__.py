"""The agent as a Python library: sessions in the process of the program that uses them."""
