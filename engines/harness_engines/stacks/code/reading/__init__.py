"""Documents into units: Python source, prose, records, and code that does not parse."""
