"""The values and the protocol that every model shares."""
