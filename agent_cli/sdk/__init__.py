"""The agent as a Python library: sessions inside the process of the program that uses them."""
