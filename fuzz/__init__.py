"""Random cases against the promises: `python -m fuzz` draws them, runs them and says what broke.

machines.py draws cases for the estimators, formulas.py evaluates their objectives a second time, invariants.py judges,
runner.py runs many cases in a process of their own. corpus/ keeps every case that ever failed;
`tests/promises/test_fuzz_corpus.py` replays them. Nothing here is installed with the library.
"""
