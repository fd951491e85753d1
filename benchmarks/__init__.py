"""Figures that are promised to users, measured. Run with `make bench`; never a timed test."""
