"""Tests of slices as a whole: added by another package, and taken away."""
