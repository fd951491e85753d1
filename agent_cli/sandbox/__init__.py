"""The only room that starts processes, and the one that confines them."""
