"""Credit of clicks on interleaved lists."""
