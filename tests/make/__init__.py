"""What tests of more than one folder make: runs, evidence, projects, servers, damaged files.

What one folder alone makes lies there.
"""
