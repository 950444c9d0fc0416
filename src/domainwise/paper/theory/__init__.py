"""What the paper argues, computed where it can be computed exactly."""
