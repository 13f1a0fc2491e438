"""What readers see is plain technical English: banned words, and sentences of at most 30 words."""
