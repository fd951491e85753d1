"""Services for the front ends: clipboard, reports, trust, completion."""
