"""`agent doctor`, `agent stats`, `agent bug`: what is wrong, and where time and money went."""
