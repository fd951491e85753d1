"""Create the tree for an attempt (`open_tree.open_tree`), save its changes, and remove it."""
