"""The checks of `agent doctor` and `/doctor`."""
