package lacuna.compat;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** The settings with which clients authenticate over SASL_SSL; PEM truststores came with 2.7. */
final class Secured {
    private static final String MODULES = "org.apache.kafka.common.security.";

    private Secured() {}

    static Map<String, Object> byPassword() {
        String login = String.format(
            MODULES + "scram.ScramLoginModule required username=\"%s\" password=\"%s\";",
            System.getenv("COMPAT_USER"),
            System.getenv("COMPAT_PASSWORD"));
        return settings("SCRAM-SHA-512", login);
    }

    static Map<String, Object> byToken() {
        Map<String, Object> settings =
            settings("OAUTHBEARER", MODULES + "oauthbearer.OAuthBearerLoginModule required;");
        settings.put("sasl.login.callback.handler.class", Tokens.class.getName());
        return settings;
    }

    private static Map<String, Object> settings(String mechanism, String login) {
        return new HashMap<>(Map.of(
            "security.protocol", "SASL_SSL",
            "ssl.truststore.type", "PEM",
            "ssl.truststore.location", System.getenv("COMPAT_CA"),
            "sasl.mechanism", mechanism,
            "sasl.jaas.config", login));
    }

    /** Always the token that the runner gave. */
    public static final class Tokens implements AuthenticateCallbackHandler {
        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            // the environment has all that is needed
        }

        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            for (Callback callback : callbacks) {
                if (!(callback instanceof OAuthBearerTokenCallback)) {
                    throw new UnsupportedCallbackException(callback); // the module goes on without SASL extensions
                }
                ((OAuthBearerTokenCallback) callback).token(new Token(System.getenv("COMPAT_TOKEN")));
            }
        }

        @Override
        public void close() {
            // nothing is open
        }
    }

    private static final class Token implements OAuthBearerToken {
        private final String value;
        private final long begin = System.currentTimeMillis();

        Token(String value) {
            this.value = value;
        }

        @Override
        public String value() {
            return value;
        }

        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return begin + 3_600_000;
        }

        @Override
        public String principalName() {
            return System.getenv("COMPAT_USER");
        }

        @Override
        public Long startTimeMs() {
            return begin;
        }
    }
}
