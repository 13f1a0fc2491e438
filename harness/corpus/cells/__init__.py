"""What the cells of files mean, in every reader: ids, grades and columns."""
