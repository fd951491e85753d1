#include "ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

/* Memory of the buffer has a guard behind it. */
static unsigned char *guard;
static size_t asked;

void *checked_malloc(size_t size) {
    unsigned char *memory = (malloc)(size + 64);
    asked = size;
    memset(memory, 0xA5, size + 64);
    guard = memory + size;
    return memory;
}

static void intact(void) {
    for (int i = 0; i < 64; i++) CHECK(guard[i] == 0xA5);
}

int main(void) {
    unsigned char in[200], out[200];
    for (int i = 0; i < 200; i++) in[i] = (unsigned char)(i * 7 + 1);
    CHECK(ring_new(0) == NULL);
    for (size_t capacity = 1; capacity < 40; capacity++) {
        struct ring *ring = ring_new(capacity);
        CHECK(ring && ring_used(ring) == 0);
        CHECK(ring_take(ring, out, 5) == 0);
        CHECK(ring_put(ring, in, 200) == capacity);
        CHECK(ring_used(ring) == capacity);
        CHECK(ring_put(ring, in, 1) == 0);
        CHECK(ring_take(ring, out, 0) == 0);
        CHECK(ring_take(ring, out, 200) == capacity);
        CHECK(memcmp(in, out, capacity) == 0);
        CHECK(ring_used(ring) == 0 && ring_take(ring, out, 1) == 0);
        size_t put = 0, taken = 0;
        for (int round = 0; round < 100; round++) {
            size_t want = (size_t)(round % 5) + 1;
            for (size_t i = 0; i < want; i++) {
                unsigned char byte = (unsigned char)put;
                if (ring_put(ring, &byte, 1)) put++;
            }
            CHECK(ring_used(ring) == put - taken);
            size_t got = ring_take(ring, out, (size_t)(round % 3) + 1);
            for (size_t i = 0; i < got; i++) CHECK(out[i] == (unsigned char)(taken + i));
            taken += got;
        }
        intact();
        ring_free(ring);
    }
    puts("every check passed");
    return 0;
}
