"""Conversion of HTML and PDF to text, in a child process."""
