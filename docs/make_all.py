"""Writes every generated page, picture and number anew from code and committed records: python docs/make_all.py.

On a clean checkout it changes nothing.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

import make_algorithms
import make_figures
import make_paper
import make_results
import make_start
import make_study

# The paper's page quotes what the figures measure, and comes last.
MAKERS = (make_algorithms, make_figures, make_start, make_study, make_results, make_paper)


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)
    for maker in MAKERS:
        print(f"docs/{maker.__name__}.py", flush=True)
        maker.main()


if __name__ == "__main__":
    main()
