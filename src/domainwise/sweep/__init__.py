"""Many trials: which ones, where their files go, and who runs them."""
