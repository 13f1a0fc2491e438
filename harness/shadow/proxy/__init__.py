"""Proxies before servers that speak HTTP or MCP, with a candidate beside them."""
