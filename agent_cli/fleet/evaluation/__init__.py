"""Evaluate models on suites of tasks, and exchange suites and results with other programs."""
