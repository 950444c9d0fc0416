"""
From a folder of pictures to predictions
========================================

The way of the four commands, in Python: look, compare, fit, predict. The folder is made here, from handwritten digits,
so that the program runs anywhere; put your own in its place.
"""

import tempfile
from pathlib import Path

from PIL import Image

import domainwise as dw

# %%
# A folder for each domain, and in it a folder for each class.

place = Path(tempfile.mkdtemp())
for domain in dw.digits():
    for i, (image, label) in enumerate(zip(domain.images[:120], domain.labels[:120], strict=True)):
        file = place / "photos" / f"turned by {domain.name}" / f"digit {label}" / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.squeeze(-1)).convert("RGB").save(file)

photos = dw.open_data(place / "photos", size=16)
print(photos)

# %%
# Each target is held out in turn. ``network="small"`` is trained from nothing; leave it out to start from a pretrained
# one where its weights are on the machine.

results = dw.compare(
    photos,
    ["erm", "arith"],
    targets=["turned by 0", "turned by 75"],
    seeds=2,
    steps=40,
    network="small",
    device="cpu",
    output=place / "results",
)
print(results.table())
print(results.answer())

# %%
# What was advised, trained on all domains. Later, ``dw.load(folder)`` opens it.

model = dw.fit(results, output=place / "model")
for one in list(model.predict_files(place / "photos" / "turned by 30" / "digit 3"))[:3]:
    print(one.class_name, f"{one.probability:.2f}")
