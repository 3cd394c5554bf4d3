"""The name of a partition."""

Partition = tuple[str, int]


def partition_name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
