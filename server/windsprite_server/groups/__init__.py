"""Who is a member of which consumer group and owns which partitions (spec 05). Pure: no I/O.

Membership lives in memory and ends with the process: members join again. Which groups exist is
metadata, and what they have stored belongs to the logs of partitions.
"""
