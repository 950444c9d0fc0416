"""Measurements inside trained models: balance between domains, and loss surfaces."""
