"""Everything that makes a GPU fast; the library is correct without it."""
