"""Make the tree that an attempt works on, save what changed in it, and remove it."""
