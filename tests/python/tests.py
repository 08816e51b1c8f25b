"""Runs the tests of this folder. usage: tests.py [PATTERN]     last line: N passed, N failed, N skipped"""
import faulthandler
import importlib.util
import sys
import unittest

MODULES = ["test_numpy", "test_fuzz", "test_hostile"]


class Result(unittest.TextTestResult):
    """Counts tests, each once, however many of its subtests fail or are skipped."""
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    @staticmethod
    def count(outcomes):
        return len({getattr(test, "test_case", test).id() for test, _ in outcomes})


def main():
    faulthandler.enable()  # a crash names the call
    skipped = 0
    for needed, module in (("torch", "test_torch"), ("torch", "test_hostile_torch"), ("torch", "test_gpu"), ("transformers", "test_transformers")):
        if importlib.util.find_spec("torch") is not None and importlib.util.find_spec(needed) is not None:
            MODULES.append(module)
        else:
            print(f"skipped: {module} needs {needed}, which {sys.executable} has not")
            skipped += 1
    loader = unittest.TestLoader()
    if len(sys.argv) > 1:
        loader.testNamePatterns = [f"*{sys.argv[1]}*"]
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=1, resultclass=Result)
    result = runner.run(loader.loadTestsFromNames(MODULES))
    failed = result.count(result.failures + result.errors)
    skipped += result.count(result.skipped)
    print(f"{result.passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0 or result.testsRun == 0)


if __name__ == "__main__":  # processes of a test begin by reading this file
    main()
