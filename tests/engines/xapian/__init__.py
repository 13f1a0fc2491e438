"""Tests of Xapian as an arm."""
