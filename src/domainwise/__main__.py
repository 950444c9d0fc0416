"""``domainwise`` and ``python -m domainwise``."""

from __future__ import annotations

import atexit
import gc
import sys

from domainwise.errors import InputError

RARELY = (50_000, 20, 50)  # looking for garbage is a quarter of the time that importing torch and its compiler takes


def main() -> None:
    gc.set_threshold(*RARELY)
    from domainwise.cli import app

    atexit.register(gc.freeze)  # nothing is gained by looking for cycles among ten thousand trials on the way out
    try:
        app(prog_name="domainwise")
    except InputError as error:
        if {"-v", "--verbose"} & set(sys.argv[1:]):
            raise
        print(f"domainwise: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("domainwise: interrupted; the same command again goes on with what is missing", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
