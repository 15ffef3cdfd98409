import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Commits offsets in a transaction, and says what became of that: address, and perhaps topic and group. */
class OffsetsInTransaction {
    public static void main(String[] address) {
        Map<String, Object> settings = Map.of("bootstrap.servers", address[0], "transactional.id", "java");
        String topic = address.length > 1 ? address[1] : "moving-orders";
        String group = address.length > 2 ? address[2] : "java-tx";
        var offsets = Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(3));
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            try {
                producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(group));
                producer.commitTransaction();
                System.out.println("committed");
            } catch (KafkaException error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                System.out.println(cause);
            }
        }
    }
}
