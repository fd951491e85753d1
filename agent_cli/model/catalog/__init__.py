"""What is known of each model: prices, windows, abilities."""
