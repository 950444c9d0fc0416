"""
A model that runs without this library
======================================

One file with everything inside: scaling of the pixels, network, probabilities. Here it is torch's own ``.pt2``; with
``pip install 'domainwise[onnx]'`` the same call writes ``model.onnx``, for other languages, browsers and phones.
"""

import tempfile
from pathlib import Path

import torch

import domainwise as dw

data, folder = dw.digits(), Path(tempfile.mkdtemp())
model = dw.fit(data, "arith", steps=60, output=folder / "model")
print(model.export(folder / "model.pt2"))

# %%
# From here on nothing is imported but torch. The images are uint8, (N, height, width, channels), as many as there are.

program = torch.export.load(folder / "model.pt2").module()
images = torch.from_numpy(data["30"].images[:5].copy())
with torch.no_grad():
    probabilities = program(images)
for row, label in zip(probabilities, data["30"].labels, strict=False):
    print(f"a {label} was taken for a {int(row.argmax())}, with probability {float(row.max()):.2f}")

# %%
# They are the model's own probabilities.

print(f"largest difference: {abs(probabilities.numpy() - model.probabilities(data['30'].images[:5])).max():.1e}")
