"""Keep trained models on disk, load and evaluate them, and predict with them."""
