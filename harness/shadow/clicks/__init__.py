"""Interleaved rankings and the clicks on them."""
