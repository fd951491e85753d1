"""Reading and writing text files: encodings, pages, atomic writes."""
