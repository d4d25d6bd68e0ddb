package lacuna;

import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.TransactionListing;

/** Lists what only all brokers together know, as Kafka's tools do: groups, then transactional ids. */
final class Listing {
    private Listing() {}

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            TreeSet<String> groups = new TreeSet<>();
            admin.listGroups().all().get().stream().map(GroupListing::groupId).forEach(groups::add);
            System.out.println(String.join(" ", groups));
            TreeSet<String> ids = new TreeSet<>();
            admin.listTransactions().all().get().stream()
                .map(TransactionListing::transactionalId).forEach(ids::add);
            System.out.println(String.join(" ", ids));
        }
    }
}
