"""The paper's tables and figures: what each of them runs, and what comes out beside what was printed."""
