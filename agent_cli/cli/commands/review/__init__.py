"""`agent review`: findings on a change, checked and remembered."""
