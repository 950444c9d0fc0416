"""What came of a set of trials, for people to read: tables, figures and one self-contained page."""
