"""Planning: how many queries each gate needs, and what was registered before results were seen."""
