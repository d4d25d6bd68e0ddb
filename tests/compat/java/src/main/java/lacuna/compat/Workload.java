package lacuna.compat;

import java.util.List;

/** What the runner wants written; its file's field names. */
final class Workload {
    /** One record; a null key or value is null, headers are pairs of name and value. */
    static final class Entry {
        int partition;
        String key;
        String value;
        List<List<String>> headers;
    }

    /** One transaction and how it ends. */
    static final class Transaction {
        boolean commit;
        List<Entry> records;
    }

    List<Entry> produce;
    List<Transaction> transactions;
}
