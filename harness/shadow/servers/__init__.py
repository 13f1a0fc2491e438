"""Search servers that are not ours, in a live comparison: over HTTP and over MCP."""
