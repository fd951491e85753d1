"""Bubblewrap, Landlock, seccomp and Seatbelt, and detection of those this machine has."""
