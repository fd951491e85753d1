"""Make the tree that an attempt works on (`open_tree.open_tree`), save what changed in it, and remove it."""
