"""Tests of the model room, and the doubles every other room tests with."""
