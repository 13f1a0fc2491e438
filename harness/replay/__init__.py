"""Run queries on open engines, and keep their answers and times."""
