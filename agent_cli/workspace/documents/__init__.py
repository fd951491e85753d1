"""Conversion of HTML, PDF and office documents to text, in a child process."""
