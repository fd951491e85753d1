#ifndef RING_H
#define RING_H

#include <stddef.h>

/* A buffer of bytes: what was put in first comes out first. */
struct ring;

/* Return an empty buffer for up to `capacity` bytes (at least 1), or NULL without memory or for a capacity of 0. */
struct ring *ring_new(size_t capacity);
void ring_free(struct ring *ring);

/* Number of bytes that can be read. */
size_t ring_used(const struct ring *ring);

/* Put as many of the bytes in as there is room for; return how many. */
size_t ring_put(struct ring *ring, const unsigned char *bytes, size_t count);

/* Take up to `count` bytes out; return how many. */
size_t ring_take(struct ring *ring, unsigned char *bytes, size_t count);

#endif
