"""Languages beside Python, read by tree-sitter where the extra ``languages`` is installed."""
