"""From YAML text to a checked `GatewaySpec`, and back into the text without losing a comment.

Every problem of a file is reported at once, each with file, line and column, what is wrong and what to write instead.
"""
