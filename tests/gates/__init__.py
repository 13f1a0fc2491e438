"""One rule a module, each shown to pass, to fail and to leave open."""
