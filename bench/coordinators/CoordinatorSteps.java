import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Commits again and again, offsets of a group or transactions, with Kafka's own client and its defaults. Prints the time
 * of each commit in nanoseconds of the machine's monotonic clock, and ends with the first exception.
 *
 * Arguments: the bootstrap servers, `classic`, `consumer` or `transactions`, the topic, the group or transactional id.
 */
public class CoordinatorSteps {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        if (arguments[1].equals("transactions")) {
            commitTransactions(settings, arguments[2], arguments[3]);
        } else {
            settings.put("group.protocol", arguments[1]);
            commitOffsets(settings, arguments[2], arguments[3]);
        }
    }

    private static void commitOffsets(Properties settings, String topic, String group) {
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(topic));
            var partition = new TopicPartition(topic, 0);
            for (long offset = 1; ; offset++) {
                consumer.poll(Duration.ofMillis(10));
                if (consumer.assignment().contains(partition)) {
                    consumer.commitSync(Map.of(partition, new OffsetAndMetadata(offset)));
                    System.out.println(System.nanoTime());
                }
            }
        }
    }

    private static void commitTransactions(Properties settings, String topic, String transactionalId) {
        settings.put("transactional.id", transactionalId);
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<byte[], byte[]>(settings, bytes, bytes)) {
            producer.initTransactions();
            while (true) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, new byte[100]));
                producer.commitTransaction();
                System.out.println(System.nanoTime());
            }
        }
    }
}
