"""What must outlive the daemon: the numbers that were given (SQLite)."""
