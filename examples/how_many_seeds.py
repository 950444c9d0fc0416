"""
How much can these seeds show?
==============================

Two algorithms, a few seeds: the difference in the table may be luck. ``dw.power`` says how large a difference these
seeds find, and how many would settle the one you care about.
"""

import tempfile

import domainwise as dw

results = dw.compare(dw.digits(), "erm,arith", targets=["75"], seeds=4, steps=40, output=tempfile.mkdtemp())
print(results.table())

# %%
# One point of accuracy is the difference that we want to know about.

found = dw.power(results, difference=1.0, baseline="erm")
print(found)

# %%
# The same as a data frame: a row for each statistic. The mean over many evaluations scatters less than one selected
# step, so it needs fewer seeds for the same difference.

print(found.frame().T)
