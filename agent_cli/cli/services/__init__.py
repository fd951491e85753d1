"""Services for the front ends: listings, clipboard, reports."""
