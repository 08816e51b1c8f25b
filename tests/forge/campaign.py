"""How the forgers run that also change what they wrote, and the row of counts in which each ends."""
import os
import sys
import tempfile


def run(kind, words):
    """Draw patterns until N certificates were asked about. words(c): what these are, how many were changed, how many of
    the verified ones were, and where a definition found claims violated. Exits 1 after a fault."""
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    seed, nth = int(sys.argv[3]) if len(sys.argv) > 3 else 1, 0
    with tempfile.TemporaryDirectory(prefix=f"s2-forge-{name}.") as folder:
        c = kind(sys.argv[1], seed, folder)
        while c.asked < int(sys.argv[2]):
            c.draw(nth)
            nth += 1
    asked, changed, verified, violated = words(c)
    print(f"{c.asked} {asked} of {nth} patterns from seed {seed}, {changed}: {c.counts['verified']} verified ({verified}), "
          f"{c.counts['refuted']} refuted, {c.counts['malformed']} malformed, {c.counts['undecided']} not decided; {c.violated} {violated}; "
          f"{c.faults} faults")
    sys.exit(c.faults != 0)
