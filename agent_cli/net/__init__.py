"""Which addresses may be reached, and through which proxy."""
