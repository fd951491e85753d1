#!/bin/sh
# Right order and limit, but goes on after an error.
cat >maplimit.js <<'END'
'use strict';

async function mapLimit(items, limit, worker) {
  const results = [];
  let next = 0;
  async function lane() {
    while (next < items.length) {
      const place = next++;
      results[place] = await worker(items[place]);
    }
  }
  await Promise.all(Array.from({ length: limit }, lane));
  return results;
}

module.exports = { mapLimit };
END
