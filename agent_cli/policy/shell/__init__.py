"""A shell command line: parse, unwrap, classify."""
