"""Read and write text files: encodings, pages, atomic writes."""
