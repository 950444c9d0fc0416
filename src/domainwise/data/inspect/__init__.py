"""Look at data before training: counts, sizes and a sheet of pictures."""
