"""Describe an experiment and its outcome as pure data: settings, trials, records, results. No torch."""
