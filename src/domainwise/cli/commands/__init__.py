"""The commands: a file for each, or for a few of one job; `domainwise.cli` lists them."""
