"""What each kind of file says, one kind a module: texts with blank lines between paragraphs."""
