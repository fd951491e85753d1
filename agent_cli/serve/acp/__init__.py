"""The Agent Client Protocol, version 1: sessions for a code editor."""
