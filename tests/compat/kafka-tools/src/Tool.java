import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * One command-line tool, run by its main method in this JVM: what it printed and how it ended.
 *
 * <p>Tools end by Kafka's Exit, which is told here to throw instead; what they would do when the JVM ends is done
 * when they end. Their threads inherit where they print to, so that no tool prints into the next one's output.
 */
final class Tool {
    /** What a tool printed, standard output and errors apart, and its exit code. */
    record Result(int exit, List<String> lines, List<String> errors) {}

    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;

        Exited() {
            super("the tool has ended", null, false, false);
        }
    }

    private static final int SECONDS = 30;
    private static final InheritableThreadLocal<Tool> CURRENT = new InheritableThreadLocal<>();

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream errors = new ByteArrayOutputStream();
    private final List<Runnable> hooks = Collections.synchronizedList(new ArrayList<>());
    private volatile Integer exit;
    private volatile boolean muted;

    private Tool() {}

    /** Takes System's streams and Kafka's Exit; returns the standard output that was there before. */
    static PrintStream takeOver() {
        PrintStream before = System.out;
        System.setOut(new PrintStream(switching(true), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(switching(false), true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Tool::exit);
        Exit.setHaltProcedure(Tool::exit);
        Exit.setShutdownHookAdder((name, hook) -> CURRENT.get().hooks.add(hook));
        return before;
    }

    /** The first exit counts: what a tool does with the error that ends it is not the tool's any more. */
    private static void exit(int code, String message) {
        Tool tool = CURRENT.get();
        if (tool.exit == null) {
            if (message != null) {
                System.err.println(message);
            }
            tool.exit = code;
            tool.muted = true;
        }
        throw new Exited();
    }

    private static OutputStream switching(boolean standard) {
        return new OutputStream() {
            @Override
            public void write(int value) {
                write(new byte[] {(byte) value}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int from, int count) {
                Tool tool = CURRENT.get();
                if (tool != null && !tool.muted) {
                    (standard ? tool.out : tool.errors).write(bytes, from, count);
                }
            }
        };
    }

    static Result run(String className, String... arguments) {
        return withInput("", className, arguments);
    }

    /** Raises IllegalStateException for a tool that does not end, or whose main method throws. */
    static Result withInput(String input, String className, String... arguments) {
        Tool tool = new Tool();
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        FutureTask<Result> task = new FutureTask<>(() -> tool.main(className, arguments));
        Thread thread = new Thread(task, className);
        thread.setDaemon(true);
        thread.start();
        try {
            return task.get(SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            String stack = Arrays.stream(thread.getStackTrace()).limit(8).toList().toString();
            thread.interrupt();
            throw new IllegalStateException(
                    className + " did not end; it printed " + tool.result() + " and is at " + stack, late);
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            cause = cause instanceof InvocationTargetException ? cause.getCause() : cause;
            throw new IllegalStateException(className + ": " + cause, cause);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private Result main(String className, String[] arguments) throws Exception {
        CURRENT.set(this);
        try {
            Class.forName(className).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (exit == null) {
                throw thrown;
            }
        }
        muted = false;
        List.copyOf(hooks).forEach(Runnable::run);
        return result();
    }

    private Result result() {
        return new Result(exit == null ? 0 : exit, lines(out), lines(errors));
    }

    private static List<String> lines(ByteArrayOutputStream bytes) {
        return bytes.toString(StandardCharsets.UTF_8).lines().filter(line -> !line.isBlank()).toList();
    }
}
