"""Files of rows and columns, and of arrays: read, checked, cell by cell."""
