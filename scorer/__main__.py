"""``python -m scorer``."""

from scorer.start import main

if __name__ == "__main__":
    main()
