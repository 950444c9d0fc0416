"""One trial from its plan to its result."""
