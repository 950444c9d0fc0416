"""A trained model on disk: keep, load, evaluate and predict."""
