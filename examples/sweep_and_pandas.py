"""
A random search, and pandas
===========================

Every trial is a row. What tables, figures and tests of your own need is in one data frame.
"""

import tempfile

import matplotlib.pyplot as plt

import domainwise as dw

# %%
# Two draws of the hyperparameters of Fish and of Arith. ``inner_lr`` is drawn between 0.003 and 0.03.

results = dw.compare(
    dw.digits(), "fish,arith", targets=["75"], seeds=2, draws=2, steps=40, output=tempfile.mkdtemp(), set={"batch": 32}
)
frame = results.frame()
print(frame[["algorithm", "draw", "seed", "hyper.inner_lr", "validation_accuracy", "target_accuracy"]])

# %%
# The table picks a draw by the sources' hold-outs, never by the target.

print(results.table())

# %%
# Does a higher accuracy on known domains mean a higher one on the target? Here is how one would look.

for name, rows in frame.groupby("algorithm"):
    plt.scatter(100 * rows["validation_accuracy"], 100 * rows["target_accuracy"], label=name)
plt.xlabel("accuracy on the sources' hold-outs, %")
plt.ylabel("accuracy on the target, %")
plt.legend()
plt.show()
