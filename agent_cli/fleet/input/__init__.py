"""Read the files that define tasks, and freeze them."""
