"""Machines that judge: a model behind HTTP, a cross-encoder, a rule; and the labels they give."""
