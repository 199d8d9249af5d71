"""Suites that run against a stand-in and against the real thing."""
