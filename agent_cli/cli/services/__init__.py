"""What the front ends are given: listings, clipboard, reports."""
