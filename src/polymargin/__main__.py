"""`python -m polymargin`: the command line."""

import sys

if __name__ == "__main__":
    try:
        from polymargin.cli import main

        code = main()
    except KeyboardInterrupt:  # before the command line is there to say it
        print("polymargin: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
