"""Measure a model on a suite of tasks, and exchange suites and results with other programs."""
