"""Values and the protocol shared by all models."""
