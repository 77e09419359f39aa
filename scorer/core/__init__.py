"""Pure decisions: vocabulary, maths and judgement.

Nothing here reads a clock, draws a random number, logs or does I/O. Time is an
argument (``now``, monotonic seconds) and so is chance, which is what lets tests,
benchmarks and a simulator run the shipped code on a virtual clock.
"""
