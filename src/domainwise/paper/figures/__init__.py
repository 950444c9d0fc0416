"""One file a figure of the paper."""
