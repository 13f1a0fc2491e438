"""Tests of the local server, asked as a browser asks it."""
