"""Read HTML and PDF as text, in a child process."""
