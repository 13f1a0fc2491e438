"""Work that many processes may share: batches, each of which leaves one part file."""
