"""Partition logs: what is appended, served, kept and removed, in files of one directory.

`LogStore` (store.py) holds one `PartitionLog` (partition.py) for each life of a partition. The
other modules have one job each: segment files, their sparse index, the tail in memory, group
commit, recovery, retention, the stored offsets of consumers. docs/data-directory.md is the byte
map.
"""
