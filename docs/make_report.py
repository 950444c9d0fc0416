"""Takes the picture of the demo's report anew, docs/report.png: python docs/make_report.py. Needs chromium.

It is no part of make_all.py: the page says how long the demo took, so the picture is another one every time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).parent / "report.png"
SIZE = "1280,1670"


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("there is no chromium here: install it to take the picture")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "domainwise", "demo", "-q", "-o", folder], check=True)
        page = (Path(folder) / "report.html").as_uri()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE}"]
        subprocess.run([chromium, *options, f"--screenshot={PICTURE}", page], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
