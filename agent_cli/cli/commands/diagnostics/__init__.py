"""`agent doctor`, `agent stats`, `agent bug`: diagnose problems, and break down time and cost."""
