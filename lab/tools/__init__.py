"""Small programs that run inside a node: loads, captures and injectors. Standard library only, every load bounded."""
