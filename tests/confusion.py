"""Prints the classifier's confusion matrix: ``python tests/confusion.py [FILE]``.

FILE is JSON lines with ``status``, ``headers``, ``body`` and ``class``; by default the
samples in ``tests/data/errors.jsonl``. Rows are what a sample is, columns what it was
taken for. Exit code 0 when all are right, 1 otherwise.
"""

import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from scorer.core.classify import Classifier, Context
from scorer.core.outcome import OutcomeClass
from scorer.core.rules import Fact

SAMPLES = Path(__file__).parent / "data" / "errors.jsonl"
OURS = {"gateway_overflow": OutcomeClass.GATEWAY_FAULT}
"""Classes that the samples call by another name."""
SEEN = Context(facts=Fact.ANSWERED)
"""A sample is an answer whose headers and body were seen."""


def load(path):
    """Return the samples of a file, in its order."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def wanted(sample):
    """Return the class that a sample has."""
    return OutcomeClass(OURS.get(sample["class"], sample["class"]))


def judged(sample, classifier):
    """Return the verdict on a sample."""
    return classifier(sample["status"], sample["headers"], sample["body"], SEEN)


def matrix(pairs):
    """Return the lines of the matrix of (wanted, got) pairs."""
    counts = Counter(pairs)
    rows = [each for each in OutcomeClass if any(each is want for want, _ in counts)]
    columns = [each for each in OutcomeClass if any(each is got for _, got in counts)]
    width = max(len(each) for each in OutcomeClass)
    lines = [" " * width + "".join(f" {each:>17}" for each in columns)]
    for row in rows:
        cells = "".join(f" {counts[row, column] or '.':>17}" for column in columns)
        lines.append(f"{row:<{width}}{cells}")
    return lines


def main(path):
    """Print the matrix, what is wrong, and the accuracy; return the exit code."""
    samples, classifier = load(path), Classifier()
    verdicts = [judged(sample, classifier) for sample in samples]
    pairs = [
        (wanted(each), verdict.outcome) for each, verdict in zip(samples, verdicts, strict=True)
    ]
    sys.stdout.write("\n".join(matrix(pairs)) + "\n\n")
    for number, (sample, verdict) in enumerate(zip(samples, verdicts, strict=True), start=1):
        if verdict.outcome is not wanted(sample):
            sys.stdout.write(
                f"line {number}: {sample.get('system', '')} {sample['status']}: "
                f"is {wanted(sample)}, taken for {verdict.outcome} ({verdict.reason})\n"
            )
    right = sum(want is got for want, got in pairs)
    sys.stdout.write(f"{right} of {len(pairs)} right ({right / max(len(pairs), 1):.1%})\n")
    return 0 if right == len(pairs) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES))
