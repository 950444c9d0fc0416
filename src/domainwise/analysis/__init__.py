"""What happens inside: computed from trained models and small problems, drawn by the functions called ``figure``."""
