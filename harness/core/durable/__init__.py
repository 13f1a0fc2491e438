"""What keeps a written thing whole: locks, journals, exchanged and owned folders."""
