"""Tests of this folder of the package."""
