"""Bubblewrap, Landlock, seccomp and Seatbelt, and which of them this machine has."""
