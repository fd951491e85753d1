"""Read the files that name tasks, and freeze them."""
