"""The page of trends, from the histories of data sets."""
