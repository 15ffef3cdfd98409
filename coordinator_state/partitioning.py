"""The partition of a key, in a Kafka topic and in the state of a Spark query.

Both are hashes that others have chosen; what matters is that the outcome is theirs to the bit.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """Partition that Kafka's default partitioner gives `key` (BuiltInPartitioner.partitionForKey)."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def state_partition_for_key(key: bytes, partitions: int) -> int:
    """State partition that Spark gives the binary `key` (HashPartitioning: pmod(hash(key), partitions))."""
    hashed = _murmur3(key, 42)
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return signed % partitions


def _murmur2(data: bytes) -> int:
    """MurmurHash2, 32 bits, with Kafka's seed (org.apache.kafka.common.utils.Utils.murmur2)."""
    m, length = 0x5BD1E995, len(data)
    h = 0x9747B28C ^ length
    whole = length - length % 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & _MASK
        h = (h * m & _MASK) ^ ((k ^ k >> 24) * m & _MASK)
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & _MASK
    h = (h ^ h >> 13) * m & _MASK
    return h ^ h >> 15


def _murmur3(data: bytes, seed: int) -> int:
    """MurmurHash3, 32 bits, as Spark has it (Murmur3_x86_32.hashUnsafeBytes).

    The bytes of the tail are mixed in one by one, as signed numbers, unlike in the original.
    """
    h = seed
    whole = len(data) - len(data) % 4
    for i in range(0, whole, 4):
        h = _mix3(h, int.from_bytes(data[i : i + 4], "little"))
    for i in range(whole, len(data)):
        h = _mix3(h, int.from_bytes(data[i : i + 1], "little", signed=True) & _MASK)
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _mix3(h: int, k: int) -> int:
    k = _rotate(k * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_rotate(h ^ k, 13) * 5 + 0xE6546B64) & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
