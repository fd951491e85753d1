#!/bin/sh
cat >ring.c <<'END'
#include "ring.h"

#include <stdlib.h>

struct ring {
    size_t capacity, used, tail;
    unsigned char data[];
};

struct ring *ring_new(size_t capacity) {
    struct ring *ring = capacity ? malloc(sizeof *ring + capacity) : NULL;
    if (ring) {
        ring->capacity = capacity;
        ring->used = ring->tail = 0;
    }
    return ring;
}

void ring_free(struct ring *ring) { free(ring); }

size_t ring_used(const struct ring *ring) { return ring->used; }

size_t ring_put(struct ring *ring, const unsigned char *bytes, size_t count) {
    size_t done = 0;
    while (done < count && ring->used < ring->capacity) {
        ring->data[(ring->tail + ring->used) % ring->capacity] = bytes[done++];
        ring->used++;
    }
    return done;
}

size_t ring_take(struct ring *ring, unsigned char *bytes, size_t count) {
    size_t done = 0;
    while (done < count && ring->used) {
        bytes[done++] = ring->data[ring->tail];
        ring->tail = (ring->tail + 1) % ring->capacity;
        ring->used--;
    }
    return done;
}
END
