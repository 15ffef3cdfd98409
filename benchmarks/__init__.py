"""How fast it is: `python -m benchmarks core` without Spark, `... latency` with everything."""
