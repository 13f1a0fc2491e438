"""Stage ``compare``, and differences taken apart by slice, stage, corpus and ties."""
