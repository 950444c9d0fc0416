"""Run one trial, from its plan to its result."""
