"""The client's side of message search over MCP: the connection, what is sent, what comes back."""
