"""`agent serve` and `agent acp`: the engine for other programs."""
