"""
Tables, signals and texts
=========================

Not only images have domains: measurements from several islands, sensors on several people, reviews of several kinds of
things. The three data sets here are made by the program, so that it runs anywhere; yours go in the same way.
"""

import tempfile
from pathlib import Path

import numpy as np

import domainwise as dw

HERE = Path(tempfile.mkdtemp())
random = np.random.default_rng(0)

# %%
# A table: a CSV with the columns ``domain`` and ``label``, and numbers in all others. On each island birds are of
# another size, and everywhere males have longer bills for their size.

rows = ["domain,label,bill,wing,weight"]
for island, size in {"north": 1.0, "south": 1.3, "west": 0.8}.items():
    for i in range(80):
        bird = size * random.normal([39 + 4 * (i % 2), 190, 3700], [1.5, 8, 300])
        rows.append(f"{island},{'male' if i % 2 else 'female'},{','.join(f'{x:.1f}' for x in bird)}")
(HERE / "birds.csv").write_text("\n".join(rows))

results = dw.compare(HERE / "birds.csv", "erm,fish,arith,coral", seeds=1, steps=60, output=HERE / "birds")
print(results.table())

# %%
# Signals: arrays (N, channels, steps), by domain. The class is how fast somebody moves; each person wears the sensor in
# another way.

people = {}
for i, name in enumerate(["ann", "bob", "eve"]):
    fast = np.arange(60) % 2
    phase = random.uniform(0, 6, (60, 1))
    wave = np.sin(np.outer(1 + fast, np.linspace(0, 12, 48)) + phase)
    tilt = random.normal(size=(3, 1))
    people[name] = (wave[:, None] * tilt + i + 0.3 * random.normal(size=(60, 3, 48)), ["walks", "runs"] * 30)

moves = dw.domains(people, name="moves", classes=["walks", "runs"])
model = dw.fit(moves, "arith", steps=60, output=HERE / "moves")
print(model.predict(people["bob"][0][:4]))

# %%
# Texts: lists of them, or a CSV with the column ``text``. Books, films and songs are praised in the same words, and
# each has words of its own.

praise, blame = ["wonderful", "moving", "brilliant", "great"], ["dull", "tiresome", "boring", "poor"]
about = {"books": "author chapter prose", "films": "actor scene camera", "songs": "chorus melody band"}
said = {}
for name, words in about.items():
    texts = [f"the {random.choice(words.split())} is {random.choice(praise if i % 2 else blame)}" for i in range(60)]
    said[name] = (texts, ["down", "up"] * 30)

reviews = dw.domains(said, name="reviews")
model = dw.fit(reviews, "arith", steps=40, lr=0.01, output=HERE / "reviews")
print(model.predict(["What a wonderful game!", "A tiresome meal."]))
