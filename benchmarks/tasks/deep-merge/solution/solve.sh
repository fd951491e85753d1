#!/bin/sh
cat >merge.js <<'END'
'use strict';

function isPlain(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function copy(value) {
  if (Array.isArray(value)) return value.map(copy);
  return isPlain(value) ? merge({}, value) : value;
}

/** Return the values of `base`, with those of `changes` merged into them; neither is changed. */
function merge(base, changes) {
  const result = {};
  for (const key of Object.keys(base)) {
    if (key !== '__proto__') result[key] = copy(base[key]);
  }
  for (const key of Object.keys(changes)) {
    if (key === '__proto__') continue;
    if (changes[key] === null) delete result[key];
    else if (isPlain(changes[key])) result[key] = merge(isPlain(result[key]) ? result[key] : {}, changes[key]);
    else result[key] = copy(changes[key]);
  }
  return result;
}

module.exports = { merge };
END
