"""What a user types that is no prompt: commands behind `!`, notes behind `#`."""
