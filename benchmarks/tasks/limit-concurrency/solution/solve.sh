#!/bin/sh
cat >maplimit.js <<'END'
'use strict';

/** Run `worker` on each item, at most `limit` at a time; resolve to the results in the order of the items. */
async function mapLimit(items, limit, worker) {
  const results = new Array(items.length);
  let next = 0;
  let failed = false;

  async function lane() {
    while (!failed && next < items.length) {
      const place = next++;
      try {
        results[place] = await worker(items[place]);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
  return results;
}

module.exports = { mapLimit };
END
