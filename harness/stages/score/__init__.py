"""Stage ``score``: measures and their means, and the cross-check of the kernels."""
