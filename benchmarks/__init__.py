"""Benchmarks: `python -m benchmarks NAME [options] --json FILE`.

A benchmark is a file here with a `BENCHMARK`, named in `registry.py`. It describes contestants;
`frame.py` runs them in turns and compares their answers, `report.py` writes down what came out.
"""
