'use strict';
const assert = require('node:assert');
const path = require('node:path');
const { mapLimit } = require(path.join(process.cwd(), 'maplimit.js'));

const turn = () => new Promise((resolve) => setImmediate(resolve));
async function turns(count) {
  for (let i = 0; i < count; i += 1) await turn();
}

async function main() {
  for (const limit of [1, 2, 3, 50]) {
    let running = 0;
    let most = 0;
    const items = [5, 1, 4, 2, 3, 0, 6];
    const results = await mapLimit(items, limit, async (item) => {
      running += 1;
      most = Math.max(most, running);
      await turns(item);
      running -= 1;
      return item * 10;
    });
    assert.deepStrictEqual(results, items.map((item) => item * 10));
    assert.strictEqual(most, Math.min(limit, items.length), `limit ${limit}`);
  }
  assert.deepStrictEqual(await mapLimit([], 2, async () => 1), []);

  const started = [];
  await assert.rejects(
    mapLimit([1, 2, 3, 4, 5], 2, async (item) => {
      started.push(item);
      await turns(item);
      if (item === 1) throw new Error('first');
      if (item === 2) throw new Error('second');
    }),
    /first/,
  );
  await turns(20);
  assert.deepStrictEqual(started, [1, 2], 'a worker started after the error');

  const later = [];
  await assert.rejects(
    mapLimit([1, 6, 7, 8], 2, async (item) => {
      later.push(item);
      await turns(item);
      if (item === 1) throw new Error('early');
    }),
    /early/,
  );
  await turns(30);
  assert.deepStrictEqual(later, [1, 6], 'a worker started after the error');
  console.log('every check passed');
}

main();
