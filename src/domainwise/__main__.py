"""``domainwise`` and ``python -m domainwise``."""

from __future__ import annotations

import sys

from domainwise.errors import InputError


def main() -> None:
    from domainwise.cli import app

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
