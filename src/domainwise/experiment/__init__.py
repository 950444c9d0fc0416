"""What an experiment is and what came of it, as pure data: settings, trials, records, results. No torch."""
