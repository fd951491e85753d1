#include "ring.h"

#include <stdlib.h>

struct ring {
    size_t capacity, head, tail;
    unsigned char data[];
};

struct ring *ring_new(size_t capacity) {
    struct ring *ring = malloc(sizeof *ring + capacity - 1);
    if (ring) {
        ring->capacity = capacity;
        ring->head = ring->tail = 0;
    }
    return ring;
}

void ring_free(struct ring *ring) { free(ring); }

size_t ring_used(const struct ring *ring) { return (ring->head - ring->tail) % ring->capacity; }

size_t ring_put(struct ring *ring, const unsigned char *bytes, size_t count) {
    size_t done = 0;
    while (done < count && ring_used(ring) < ring->capacity - 1) {
        ring->data[ring->head] = bytes[done++];
        ring->head = (ring->head + 1) % ring->capacity;
    }
    return done;
}

size_t ring_take(struct ring *ring, unsigned char *bytes, size_t count) {
    size_t done = 0;
    do {
        bytes[done++] = ring->data[ring->tail];
        ring->tail = (ring->tail + 1) % ring->capacity;
    } while (done < count && ring->tail != ring->head);
    return done;
}
