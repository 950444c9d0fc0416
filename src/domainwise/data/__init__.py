"""Domains as arrays: where they come from, how they are split, how minibatches are drawn."""
