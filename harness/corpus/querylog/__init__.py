"""Logs of queries: their formats, what is cleaned and masked, and how often each query came."""
