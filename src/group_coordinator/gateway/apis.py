"""Kafka's APIs and what the gateway does with each: the one table.

A request whose key is not in it is not offered, and closes the connection, as one of an unknown API does at a
broker. So does a version that is not offered. The rows of the APIs of groups come from `group_apis/`.

Source: the message definitions of Apache Kafka 4.2; `docs/gateway.md` gives the reasons.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.gateway.group_apis.table import GROUP_APIS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Way(Enum):
    """The origin of the answer to a request."""

    STREAM = "the coordinator, by the log"
    GATEWAY = "the gateway itself"
    REWRITTEN = "a broker, with addresses replaced by the gateway's"
    PASSED = "a broker, as it is"
    OF_BROKERS = "a broker, for groups that stay there; else the gateway, with an error"
    HIDDEN = "nobody: the gateway does not offer it"


class Api(NamedTuple):
    """One of Kafka's APIs. `newest`: the newest version that is offered; None for the broker's own.

    `oldest`: the oldest one, where that is not the broker's own.
    """

    name: str
    way: Way
    newest: int | None = None
    oldest: int = 0

    def offers(self, version: int) -> bool:
        """Whether this version may be offered; a broker may have fewer."""
        return self.newest is None or version <= self.newest


class OfferedVersions(NamedTuple):
    """The versions of one API that a client may use, both ends included."""

    api_key: int
    oldest: int
    newest: int


APIS: dict[int, Api] = {
    **{
        key: Api(api.name, Way.GATEWAY if api.pair is None else Way.STREAM, api.newest)
        for key, api in GROUP_APIS.items()
    },
    # From version 13 on both name topics by their ids, by which the coordinator's own ones are not known. In
    # those of Fetch from version 16 on the addresses of leaders stand behind megabytes of records as well.
    0: Api("Produce", Way.REWRITTEN, 12),
    1: Api("Fetch", Way.PASSED, 12),
    2: Api("ListOffsets", Way.PASSED),
    3: Api("Metadata", Way.REWRITTEN),
    # After version 0 the client sends bytes that are no frames.
    17: Api("SaslHandshake", Way.PASSED, 1, oldest=1),
    18: Api("ApiVersions", Way.REWRITTEN, 4),
    19: Api("CreateTopics", Way.PASSED),
    20: Api("DeleteTopics", Way.PASSED),
    21: Api("DeleteRecords", Way.PASSED),
    22: Api("InitProducerId", Way.PASSED),
    23: Api("OffsetForLeaderEpoch", Way.PASSED),
    24: Api("AddPartitionsToTxn", Way.PASSED),
    # Offsets in a transaction would go to a group of the brokers' that nobody reads.
    25: Api("AddOffsetsToTxn", Way.HIDDEN),
    26: Api("EndTxn", Way.PASSED),
    27: Api("WriteTxnMarkers", Way.HIDDEN),
    28: Api("TxnOffsetCommit", Way.HIDDEN),
    29: Api("DescribeAcls", Way.PASSED),
    30: Api("CreateAcls", Way.PASSED),
    31: Api("DeleteAcls", Way.PASSED),
    32: Api("DescribeConfigs", Way.PASSED),
    33: Api("AlterConfigs", Way.PASSED),
    34: Api("AlterReplicaLogDirs", Way.PASSED),
    35: Api("DescribeLogDirs", Way.PASSED),
    36: Api("SaslAuthenticate", Way.PASSED, 2),
    37: Api("CreatePartitions", Way.PASSED),
    38: Api("CreateDelegationToken", Way.PASSED),
    39: Api("RenewDelegationToken", Way.PASSED),
    40: Api("ExpireDelegationToken", Way.PASSED),
    41: Api("DescribeDelegationToken", Way.PASSED),
    43: Api("ElectLeaders", Way.PASSED),
    44: Api("IncrementalAlterConfigs", Way.PASSED),
    45: Api("AlterPartitionReassignments", Way.PASSED),
    46: Api("ListPartitionReassignments", Way.PASSED),
    48: Api("DescribeClientQuotas", Way.PASSED),
    49: Api("AlterClientQuotas", Way.PASSED),
    50: Api("DescribeUserScramCredentials", Way.PASSED),
    51: Api("AlterUserScramCredentials", Way.PASSED),
    55: Api("DescribeQuorum", Way.PASSED),
    57: Api("UpdateFeatures", Way.PASSED),
    60: Api("DescribeCluster", Way.REWRITTEN),
    61: Api("DescribeProducers", Way.PASSED),
    64: Api("UnregisterBroker", Way.PASSED),
    65: Api("DescribeTransactions", Way.PASSED),
    66: Api("ListTransactions", Way.PASSED),
    71: Api("GetTelemetrySubscriptions", Way.PASSED),
    72: Api("PushTelemetry", Way.PASSED),
    74: Api("ListConfigResources", Way.PASSED),
    75: Api("DescribeTopicPartitions", Way.PASSED),
    76: Api("ShareGroupHeartbeat", Way.HIDDEN),
    77: Api("ShareGroupDescribe", Way.HIDDEN),
    78: Api("ShareFetch", Way.HIDDEN),
    79: Api("ShareAcknowledge", Way.HIDDEN),
    80: Api("AddRaftVoter", Way.PASSED),
    81: Api("RemoveRaftVoter", Way.PASSED),
    83: Api("InitializeShareGroupState", Way.HIDDEN),
    84: Api("ReadShareGroupState", Way.HIDDEN),
    85: Api("WriteShareGroupState", Way.HIDDEN),
    86: Api("DeleteShareGroupState", Way.HIDDEN),
    87: Api("ReadShareGroupStateSummary", Way.HIDDEN),
    88: Api("StreamsGroupHeartbeat", Way.HIDDEN),
    89: Api("StreamsGroupDescribe", Way.HIDDEN),
    90: Api("DescribeShareGroupOffsets", Way.HIDDEN),
    91: Api("AlterShareGroupOffsets", Way.HIDDEN),
    92: Api("DeleteShareGroupOffsets", Way.HIDDEN),
}


class Offer(NamedTuple):
    """All that clients are offered."""

    apis: Mapping[int, Api]
    hidden_features: frozenset[str]
    """Features of the brokers that are not offered. `transaction.version` is, as Java's producer goes by it.
    """


ALONE = Offer(APIS, frozenset({"share.version", "streams.version"}))
"""The offer of a gateway whose groups are all here."""
BESIDE_BROKERS = Offer(
    {
        **APIS,
        25: Api("AddOffsetsToTxn", Way.OF_BROKERS, 4),
        28: Api("TxnOffsetCommit", Way.OF_BROKERS, 5),
        88: Api("StreamsGroupHeartbeat", Way.OF_BROKERS, 0),
        89: Api("StreamsGroupDescribe", Way.OF_BROKERS, 0),
    },
    # Members of share groups name topics by ids when they fetch, and the answers name leaders' addresses.
    frozenset({"share.version"}),
)
"""The offer where groups may stay at the brokers (`gateway.groups.brokers`)."""


def offer_of(patterns: str) -> Offer:
    """The offer for these patterns of groups at the brokers; "": there are none."""
    return BESIDE_BROKERS if patterns else ALONE


def offered(of_broker: Iterable[OfferedVersions], apis: Mapping[int, Api] = APIS) -> list[OfferedVersions]:
    """The versions that a client is offered, from those that its broker offers.

    Oldest versions stay as the broker says but for SaslHandshake: librdkafka finds out what a broker can do
    by ranges that overlap (KAFKA-18659).
    """
    found = []
    for key, oldest, newest in of_broker:
        api = apis.get(key)
        if api is None or api.way is Way.HIDDEN:
            continue
        found.append(
            OfferedVersions(
                key, max(oldest, api.oldest), newest if api.newest is None else min(newest, api.newest)
            )
        )
    return found
