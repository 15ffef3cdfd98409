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
            if (version == 4) offset.setTopicId(Uuid.fromString("xtzWWN4bTjitpL3kfd9s5g"));
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
    }
}
