"""The pure heart of the gateway: values and functions without I/O, clock, randomness or logging.

Everything here can be tested with literal values. Time and allocated numbers are arguments; adapters act.
"""
