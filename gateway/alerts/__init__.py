"""What somebody should be told of: calls that are unusual, out of hours or sensitive, and servers that drift."""
