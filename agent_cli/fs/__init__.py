"""Safe opening, reading, writing and locking of files, and lookup of programs. The only implementation of each."""
