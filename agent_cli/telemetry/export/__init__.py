"""Write spans to files and send them to collectors."""
