"""What servers offer, cached and pinned; names for the model; search among many tools."""
