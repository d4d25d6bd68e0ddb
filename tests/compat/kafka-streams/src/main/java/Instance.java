import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A process that runs App. */
final class Instance {
    /** Of groups: classic, or streams (KIP-1071). */
    static final String PROTOCOL = System.getProperty("app.protocol", "classic");

    private final Process process;
    private final CountDownLatch running = new CountDownLatch(1);
    private volatile String said = "it says nothing after 40 s";

    Instance(String bootstrap, String prefix, String name) throws Exception {
        String java = System.getProperty("java.home") + File.separator + "bin" + File.separator + "java";
        process = new ProcessBuilder(List.of(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                        "-Dorg.slf4j.simpleLogger.defaultLogLevel=" + System.getProperty("app.log", "error"),
                        "-Dapp.protocol=" + PROTOCOL, "-cp", System.getProperty("java.class.path"), "App", bootstrap, prefix, name))
                .redirectError(Redirect.INHERIT)
                .start();
        Thread reader = new Thread(this::read, "what the application says");
        reader.setDaemon(true);
        reader.start();
    }

    private void read() {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                said = line;
                running.countDown();
            }
        } catch (IOException closed) {
            said = "it was killed";
            running.countDown();
        }
    }

    void awaitRunning() throws Exception {
        if (!running.await(40, TimeUnit.SECONDS) || !said.equals("RUNNING")) {
            throw new IllegalStateException("the application does not run: " + said);
        }
    }

    /** A clean end. */
    void stop() throws Exception {
        process.getOutputStream().close();
        if (!process.waitFor(25, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the application does not end");
        }
    }

    /** As by kill -9. */
    void kill() throws Exception {
        process.destroyForcibly().waitFor();
    }
}
