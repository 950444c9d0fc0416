"""Minibatches: drawn from every domain, cropped, flipped and coloured on the device."""
