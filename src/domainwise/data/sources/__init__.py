"""Where images come from: folders, manifests, benchmarks and what is built in."""
