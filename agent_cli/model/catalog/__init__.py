"""Known facts about each model: prices, context windows, capabilities."""
