package lacuna;

import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A password and a delegation token (KIP-48), each for longer than a session (KIP-368): nothing fails.
 *
 * <p>Arguments: {@code HOST:PORT CA_FILE USER PASSWORD SESSION_MS TOPIC}. Prints {@code ok}.
 */
public final class Authentication {
    private static final String LOGIN =
            "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"%s\" password=\"%s\"%s;";

    private Authentication() {}

    public static void main(String[] arguments) throws Exception {
        String user = arguments[2];
        long sessionMs = Long.parseLong(arguments[4]);
        Properties own = config(arguments, "SCRAM-SHA-512", String.format(LOGIN, user, arguments[3], ""));
        try (Admin admin = Admin.create(own)) {
            KafkaPrincipal renewer = new KafkaPrincipal("User", "renewer");
            DelegationToken token = admin.createDelegationToken(
                    new CreateDelegationTokenOptions().renewers(List.of(renewer))).delegationToken().get();
            List<DelegationToken> all = admin.describeDelegationToken().delegationTokens().get();
            check(all.stream().anyMatch(token::equals), "the token is not described");
            check(token.tokenInfo().owner().getName().equals(user), "the token has another owner");
            String password = Base64.getEncoder().encodeToString(token.hmac());
            String login = String.format(LOGIN, token.tokenInfo().tokenId(), password, " tokenauth=\"true\"");
            Properties byToken = config(arguments, "SCRAM-SHA-256", login);
            produce(List.of(own, byToken), arguments[5], 3 * sessionMs);
            admin.renewDelegationToken(
                    token.hmac(), new RenewDelegationTokenOptions().renewTimePeriodMs(60_000)).expiryTimestamp().get();
            admin.expireDelegationToken(
                    token.hmac(), new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1)).expiryTimestamp().get();
            try {
                produce(List.of(byToken), arguments[5], 0);
                check(false, "a token that has ended was taken");
            } catch (ExecutionException error) {
                check(error.getCause() instanceof SaslAuthenticationException, "it failed by " + error);
            }
        }
        System.out.println("ok");
    }

    /** Sends records one after another by each producer in turn; each must authenticate again meanwhile. */
    private static void produce(List<Properties> configs, String topic, long durationMs) throws Exception {
        List<KafkaProducer<byte[], byte[]>> producers = configs.stream()
                .map(each -> new KafkaProducer<>(each, new ByteArraySerializer(), new ByteArraySerializer()))
                .toList();
        try {
            long end = System.currentTimeMillis() + durationMs;
            do {
                for (KafkaProducer<byte[], byte[]> producer : producers) {
                    producer.send(new ProducerRecord<>(topic, new byte[1])).get();
                }
            } while (System.currentTimeMillis() < end);
            for (KafkaProducer<byte[], byte[]> producer : producers) {
                check(durationMs == 0 || total(producer, "successful-reauthentication-total") > 0,
                        "a producer did not authenticate again");
                check(total(producer, "failed-reauthentication-total") == 0, "authenticating again failed");
            }
        } finally {
            producers.forEach(KafkaProducer::close);
        }
    }

    private static double total(KafkaProducer<byte[], byte[]> producer, String name) {
        return producer.metrics().entrySet().stream()
                .filter(each -> each.getKey().name().equals(name) && each.getKey().group().equals("producer-metrics"))
                .mapToDouble(each -> (Double) each.getValue().metricValue())
                .sum();
    }

    private static Properties config(String[] arguments, String mechanism, String login) {
        Properties config = new Properties();
        config.putAll(Map.of(
                "bootstrap.servers", arguments[0],
                "security.protocol", "SASL_SSL",
                "ssl.truststore.type", "PEM",
                "ssl.truststore.location", arguments[1],
                "sasl.mechanism", mechanism,
                "sasl.jaas.config", login));
        return config;
    }

    private static void check(boolean isRight, String message) {
        if (!isRight) {
            throw new AssertionError(message);
        }
    }
}
