"""What the tests of pages, numbers and mistakes count: what held, and what did not, which is printed."""
import sys

held = failed = 0


def hold(good, what):
    global held, failed
    assert isinstance(what, str) and not isinstance(good, str), "hold(GOOD, WHAT): a text that is taken for what holds would always hold"
    held += bool(good)
    failed += not good
    if not good:
        print(what)


def end(least=1):
    """The last line, and the exit code: fewer than `least` checks try nothing."""
    print(f"{held} held, {failed} did not")
    sys.exit(failed > 0 or held < least)
