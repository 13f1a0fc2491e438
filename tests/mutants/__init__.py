"""Faults of real comparators, planted; the decision must turn away from PROMOTE."""
