"""Benchmarks: ratios of two things measured in one run, raw samples kept, never a verdict (`make bench NAME=...`)."""
