"""Long texts of installed packages."""
