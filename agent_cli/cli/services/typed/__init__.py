"""User input that is not a prompt: shell commands after `!`, notes after `#`."""
