"""Real nodes under real faults: `make chaos` runs this package, and integration tests use its parts.

    PYTHONPATH=tools python -m chaos --seed 7 --minutes 10
    PYTHONPATH=tools python -m chaos --seed 7 --minutes 10 --kafka DIR
    PYTHONPATH=tools python -m chaos.comparison FILE    # results of runs with --results FILE

confinement.py  its own namespaces for the whole run, which take everything with them when it ends
network.py      how nodes reach each other, and how links are cut and slowed down
cluster.py      three nodes of Cordwood or of Apache Kafka: started, killed, paused, wiped
faults.py       the faults, each with a beginning and an end
writers.py      producers with acks=all, and the histories of their acknowledgements
transformers.py, transformer.py   transactions: processes that consume, transform and produce
readers.py      consumer groups, and their committed offsets
gaps.py         the longest time without an acknowledgement, overall and of a partition
reading.py      everything that is in a topic at the end
checks.py       what histories have to satisfy; replicas.py  the bytes on the nodes' disks
run.py          a run from its beginning to its report; report.py  the table of faults
results.py      results of runs as JSON lines; comparison.py  Cordwood's and Kafka's next to each other
"""
