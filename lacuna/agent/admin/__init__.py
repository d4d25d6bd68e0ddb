"""Code that several admin APIs share."""
