"""Files that are installed or loaded as they are: the guard, charon's configuration, units."""
