"""Stage ``report``: one data set put together for its pages."""
