'use strict';

/** Return the values of `base`, replaced by those of `changes`. */
function merge(base, changes) {
  return { ...base, ...changes };
}

module.exports = { merge };
