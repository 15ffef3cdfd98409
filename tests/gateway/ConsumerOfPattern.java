import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member that leaves its pattern to the coordinator: address, group and pattern. It says what it has. */
class ConsumerOfPattern {
    public static void main(String[] given) {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", given[0], "group.id", given[1], "group.protocol", "consumer");
        var strings = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, strings, strings)) {
            consumer.subscribe(new SubscriptionPattern(given[2]), new ConsumerRebalanceListener() {
                private final TreeSet<String> topics = new TreeSet<>();

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    partitions.forEach(each -> topics.add(each.topic()));
                    System.out.println("reads " + String.join(" ", topics));
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    partitions.forEach(each -> topics.remove(each.topic()));
                    System.out.println("reads " + String.join(" ", topics));
                }
            });
            while (true) {
                consumer.poll(Duration.ofMillis(200));
            }
        }
    }
}
