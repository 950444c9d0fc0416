"""Images decoded once and kept as arrays, in memory or in the cache."""
