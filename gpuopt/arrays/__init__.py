"""Arrays of the host, of devices and of other libraries."""
