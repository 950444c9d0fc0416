"""Report a set of trials to people: tables, figures, an answer in words and one self-contained page."""
