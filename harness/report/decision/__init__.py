"""The decision as files: JSON, JUnit, Markdown, and notes for a build server."""
