import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers in threads that commit transactions of ten records of 1 KiB over four partitions, one after another.
 *
 * <p>Arguments: bootstrap servers, topic, threads, seconds. Prints `ready` once all producers have committed for half
 * of this time, begins when a line arrives on standard input, and then prints how many milliseconds each commit took,
 * one per line.
 */
class Transactions {
  private static final int RECORDS = 10;
  private static final int PARTITIONS = 4;

  public static void main(String[] arguments) throws Exception {
    int threads = Integer.parseInt(arguments[2]);
    long nanos = (long) (Double.parseDouble(arguments[3]) * 1e9);
    CountDownLatch ready = new CountDownLatch(threads);
    CountDownLatch begin = new CountDownLatch(1);
    double[][] took = new double[threads][];
    Thread[] running = new Thread[threads];
    for (int number = 0; number < threads; number++) {
      int own = number;
      running[number] =
          new Thread(() -> took[own] = commits(arguments[0], arguments[1], own, nanos, ready, begin));
      running[number].start();
    }
    ready.await();
    System.out.println("ready");
    System.in.read();
    begin.countDown();
    StringBuilder lines = new StringBuilder();
    for (int number = 0; number < threads; number++) {
      running[number].join();
      for (double each : took[number]) {
        lines.append(each).append('\n');
      }
    }
    System.out.print(lines);
  }

  private static double[] commits(
      String servers, String topic, int number, long nanos, CountDownLatch ready, CountDownLatch begin) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", servers);
    settings.put("transactional.id", topic + "-" + number);
    settings.put("linger.ms", "5");
    settings.put("key.serializer", ByteArraySerializer.class.getName());
    settings.put("value.serializer", ByteArraySerializer.class.getName());
    double[] took = new double[1 << 16];
    int count = 0;
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
      producer.initTransactions();
      long warm = System.nanoTime() + nanos / 2;
      while (System.nanoTime() < warm) {
        transaction(producer, topic);
      }
      ready.countDown();
      begin.await();
      long end = System.nanoTime() + nanos;
      while (System.nanoTime() < end && count < took.length) {
        took[count++] = transaction(producer, topic);
      }
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
    return Arrays.copyOf(took, count);
  }

  private static double transaction(KafkaProducer<byte[], byte[]> producer, String topic) {
    producer.beginTransaction();
    for (int each = 0; each < RECORDS; each++) {
      producer.send(new ProducerRecord<>(topic, each % PARTITIONS, null, new byte[1024]));
    }
    long before = System.nanoTime();
    // commitTransaction does so too, but Kafka's client 4.1 may commit before it has sent anything: its sender asks
    // whether there are batches, and only then whether there is an end to send. The server refuses that.
    producer.flush();
    producer.commitTransaction();
    return (System.nanoTime() - before) / 1e6;
  }
}
