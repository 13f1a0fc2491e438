"""Tests of the programs that make data sets."""
