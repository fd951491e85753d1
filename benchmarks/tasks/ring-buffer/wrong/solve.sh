#!/bin/sh
# Makes room for one byte more, and forgets that the empty buffer is read.
sed -i 's/+ capacity - 1);/+ capacity + 1);/; s/ring->capacity = capacity;/ring->capacity = capacity + 1;/' ring.c
sed -i 's/^    struct ring \*ring = malloc/    if (!capacity) return NULL;\n&/' ring.c
