"""Words of HTML and parts of mail, for whoever reads documents from files."""
