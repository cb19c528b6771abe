"""Beyond one device: Dask arrays, arrays in files, several devices, groups of processes."""
