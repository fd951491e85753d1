'use strict';

/** Run `worker` on each item, at most `limit` at a time; resolve to the results in the order of the items. */
function mapLimit(items, limit, worker) {
  return new Promise((resolve, reject) => {
    const results = [];
    let next = 0;
    let running = 0;

    function start() {
      while (running <= limit && next < items.length) {
        running += 1;
        worker(items[next++]).then((result) => {
          results.push(result);
          running -= 1;
          if (results.length === items.length) resolve(results);
          else start();
        }, reject);
      }
    }
    start();
  });
}

module.exports = { mapLimit };
