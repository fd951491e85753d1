'use strict';
const assert = require('node:assert');
const path = require('node:path');
const { merge } = require(path.join(process.cwd(), 'merge.js'));

const base = { a: 1, b: { c: 2, d: { e: [1, 2] } }, list: [{ x: 1 }], keep: { y: 1 }, gone: 1 };
const changes = { b: { d: { f: 3 }, g: null }, list: [{ z: 2 }], gone: null, fresh: { deep: { n: null, m: 1 } }, keep: 5 };
const before = JSON.stringify([base, changes]);
const result = merge(base, changes);
assert.deepStrictEqual(result, {
  a: 1, b: { c: 2, d: { e: [1, 2], f: 3 } }, list: [{ z: 2 }], keep: 5, fresh: { deep: { m: 1 } },
});
assert.strictEqual(JSON.stringify([base, changes]), before, 'an argument was changed');

result.b.d.e.push(3);
result.list[0].z = 9;
result.fresh.deep.m = 9;
assert.strictEqual(JSON.stringify([base, changes]), before, 'the result shares values with an argument');
const other = merge({ p: { q: { r: 1 } } }, {});
assert.deepStrictEqual(other, { p: { q: { r: 1 } } });

const hostile = merge({ o: {} }, JSON.parse('{"__proto__": {"bad": 1}, "o": {"__proto__": {"bad": 1}}}'));
assert.strictEqual({}.bad, undefined);
assert.strictEqual(hostile.bad, undefined);
assert.strictEqual(hostile.o.bad, undefined);
assert.deepStrictEqual(merge({ a: { b: 1 } }, { a: [1] }), { a: [1] });
assert.deepStrictEqual(merge({ a: [1] }, { a: { b: 1 } }), { a: { b: 1 } });
assert.deepStrictEqual(merge({ a: 1 }, { a: undefined, b: false, c: 0 }), { a: undefined, b: false, c: 0 });
console.log('every check passed');
