"""Reports over timesheets: exports in chunks of a thousand rows, for county managers and state auditors."""
