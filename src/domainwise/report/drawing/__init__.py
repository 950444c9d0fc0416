"""Draw pictures as SVG."""
