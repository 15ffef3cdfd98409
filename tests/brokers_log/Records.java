import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.coordinator.group.generated.*;

/**
 * Writes keys and values of all versions with Kafka's own classes, as lines of a name and hexadecimal bytes:
 *
 *     java -cp GROUP-COORDINATOR.jar:KAFKA-CLIENTS.jar:SLF4J-API.jar Records.java > records.txt
 */
public class Records {
    static final long AT = 1_700_000_000_123L;

    static void print(String name, byte[] bytes) {
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }

    static void key(String name, int kind, Message message) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(2 + message.size(cache, (short) 0));
        buffer.putShort((short) kind);
        message.write(new ByteBufferAccessor(buffer), cache, (short) 0);
        print(name, buffer.array());
    }

    static void value(String name, int version, Message message) {
        print(name, MessageUtil.toVersionPrefixedBytes((short) version, message));
    }

    static GroupMetadataValue.MemberMetadata member(String id, String client, String host, int sessionMs) {
        return new GroupMetadataValue.MemberMetadata()
            .setMemberId(id).setClientId(client).setClientHost(host).setSessionTimeout(sessionMs);
    }

    static final Uuid ORDERS = Uuid.fromString("xtzWWN4bTjitpL3kfd9s5g");
    static final Uuid BILLS = new Uuid(1, 2);

    static ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions held(Uuid topic, Integer... partitions) {
        return new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
            .setTopicId(topic).setPartitions(List.of(partitions));
    }

    static ConsumerGroupTargetAssignmentMemberValue.TopicPartition target(Uuid topic, Integer... partitions) {
        return new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
            .setTopicId(topic).setPartitions(List.of(partitions));
    }

    static void ofConsumers() {
        value("epoch_0", 0, new ConsumerGroupMetadataValue().setEpoch(7));
        value("epoch_0_with_hash", 0, new ConsumerGroupMetadataValue().setEpoch(7).setMetadataHash(-2));
        value("partition_metadata_0", 0, new ConsumerGroupPartitionMetadataValue().setTopics(List.of(
            new ConsumerGroupPartitionMetadataValue.TopicMetadata()
                .setTopicId(ORDERS).setTopicName("orders").setNumPartitions(3))));
        value("member_0", 0, new ConsumerGroupMemberMetadataValue()
            .setInstanceId(null).setRackId(null).setServerAssignor(null).setClassicMemberMetadata(null)
            .setClientId("c1").setClientHost("/10.0.0.7").setSubscribedTopicNames(List.of("bills", "orders"))
            .setSubscribedTopicRegex(null).setRebalanceTimeoutMs(300_000));
        value("member_0_with_all", 0, new ConsumerGroupMemberMetadataValue()
            .setInstanceId("one").setRackId("rack").setClientId("c1").setClientHost("/10.0.0.7")
            .setSubscribedTopicRegex("o.*").setRebalanceTimeoutMs(-1).setServerAssignor("range")
            .setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()
                .setSessionTimeoutMs(45_000).setSupportedProtocols(List.of(
                    new ConsumerGroupMemberMetadataValue.ClassicProtocol()
                        .setName("range").setMetadata(new byte[]{0, 1})))));
        value("assignment_epoch_0", 0, new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(6));
        value("assignment_epoch_0_with_time", 0, new ConsumerGroupTargetAssignmentMetadataValue()
            .setAssignmentEpoch(6).setAssignmentTimestamp(AT));
        value("target_0", 0, new ConsumerGroupTargetAssignmentMemberValue()
            .setTopicPartitions(List.of(target(ORDERS, 0, 2), target(BILLS, 5))));
        value("target_0_of_nothing", 0, new ConsumerGroupTargetAssignmentMemberValue());
        value("share_0", 0, new ConsumerGroupCurrentMemberAssignmentValue()
            .setMemberEpoch(6).setPreviousMemberEpoch(5).setState((byte) 1)
            .setAssignedPartitions(List.of(held(ORDERS, 0, 2)))
            .setPartitionsPendingRevocation(List.of(held(ORDERS, 1), held(BILLS, 5))));
        value("share_0_with_epochs", 0, new ConsumerGroupCurrentMemberAssignmentValue()
            .setMemberEpoch(6).setPreviousMemberEpoch(5)
            .setAssignedPartitions(List.of(held(ORDERS, 0, 2).setAssignmentEpochs(List.of(4, 6)))));
        value("share_0_away", 0, new ConsumerGroupCurrentMemberAssignmentValue()
            .setMemberEpoch(-2).setPreviousMemberEpoch(6));
        value("pattern_0", 0, new ConsumerGroupRegularExpressionValue()
            .setTopics(List.of("orders", "old")).setVersion(900).setTimestamp(AT));
    }

    public static void main(String[] arguments) {
        String group = "größe";
        key("key_0", 0, new LegacyOffsetCommitKey().setGroup(group).setTopic("orders").setPartition(7));
        key("key_1", 1, new OffsetCommitKey().setGroup(group).setTopic("orders").setPartition(7));
        key("key_2", 2, new GroupMetadataKey().setGroup(group));
        key("key_3", 3, new ConsumerGroupMetadataKey().setGroupId(group));
        key("key_4", 4, new ConsumerGroupPartitionMetadataKey().setGroupId(group));
        key("key_5", 5, new ConsumerGroupMemberMetadataKey().setGroupId(group).setMemberId("m"));
        key("key_6", 6, new ConsumerGroupTargetAssignmentMetadataKey().setGroupId(group));
        key("key_7", 7, new ConsumerGroupTargetAssignmentMemberKey().setGroupId(group).setMemberId("m"));
        key("key_8", 8, new ConsumerGroupCurrentMemberAssignmentKey().setGroupId(group).setMemberId("m"));
        key("key_10", 10, new ShareGroupMemberMetadataKey().setGroupId(group).setMemberId("m"));
        key("key_11", 11, new ShareGroupMetadataKey().setGroupId(group));
        key("key_15", 15, new ShareGroupStatePartitionMetadataKey().setGroupId(group));
        key("key_16", 16, new ConsumerGroupRegularExpressionKey().setGroupId(group).setRegularExpression("a.*"));
        key("key_17", 17, new StreamsGroupMetadataKey().setGroupId(group));
        key("key_23", 23, new StreamsGroupTopologyKey().setGroupId(group));

        value("legacy_offset_0", 0,
            new LegacyOffsetCommitValue().setOffset(1L << 40).setMetadata("é").setCommitTimestamp(AT));
        for (short version = 0; version <= 4; version++) {
            OffsetCommitValue offset =
                new OffsetCommitValue().setOffset(1L << 40).setMetadata("é").setCommitTimestamp(AT);
            if (version >= 3) offset.setLeaderEpoch(5);
            if (version == 1) offset.setExpireTimestamp(AT + 1);
            if (version == 4) offset.setTopicId(ORDERS);
            value("offset_" + version, version, offset);
        }
        value("offset_4_without_topic_id", 4, new OffsetCommitValue().setOffset(42).setCommitTimestamp(AT));

        for (short version = 0; version <= 4; version++) {
            GroupMetadataValue.MemberMetadata one = member("c1-id", "c1", "/10.0.0.7", 45_000)
                .setSubscription(new byte[]{0, 1}).setAssignment(new byte[]{2, 3, 4});
            GroupMetadataValue.MemberMetadata two = member("c2-id", "c2", "/10.0.0.8", 6_000)
                .setAssignment(new byte[]{5});
            if (version >= 1) {
                one.setRebalanceTimeout(300_000);
                two.setRebalanceTimeout(-1);
            }
            if (version >= 3) two.setGroupInstanceId("two");
            GroupMetadataValue value = new GroupMetadataValue()
                .setProtocolType("consumer").setGeneration(9).setProtocol("range").setLeader("c1-id")
                .setMembers(List.of(one, two));
            if (version >= 2) value.setCurrentStateTimestamp(AT);
            if (version == 4) {
                value.unknownTaggedFields().add(new RawTaggedField(3, new byte[]{1, 2, 3}));
                one.unknownTaggedFields().add(new RawTaggedField(200, new byte[300]));
            }
            value("group_" + version, version, value);
        }
        // A group that is new, and one whose last member has gone.
        for (int version = 3; version <= 4; version++) {
            value("new_group_" + version, version, new GroupMetadataValue()
                .setProtocol(null).setLeader(null).setCurrentStateTimestamp(AT));
            value("empty_group_" + version, version, new GroupMetadataValue()
                .setProtocolType("consumer").setGeneration(3).setProtocol(null).setLeader(null)
                .setCurrentStateTimestamp(AT));
        }
        ofConsumers();
    }
}
