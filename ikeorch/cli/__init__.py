"""The command line: a client of the daemon, and the few commands that need none.

Nothing heavy is imported before a command needs it; `ikeorch --help` must stay quick.
"""
