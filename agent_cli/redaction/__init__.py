"""Detection and masking of secrets, in whole texts and in streams."""
