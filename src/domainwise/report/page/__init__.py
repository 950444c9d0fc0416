"""The HTML page: one section, one file."""
