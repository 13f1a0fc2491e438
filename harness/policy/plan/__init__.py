"""Planning: how many queries each gate needs."""
