"""What was typed, and how text is split."""
