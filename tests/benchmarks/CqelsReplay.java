import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.cqels.engine.CQELSEngine;
import org.cqels.engine.DataStream;
import org.eclipse.rdf4j.model.IRI;
import org.eclipse.rdf4j.model.Resource;
import org.eclipse.rdf4j.model.Value;
import org.eclipse.rdf4j.model.ValueFactory;
import org.eclipse.rdf4j.model.impl.SimpleValueFactory;
import org.eclipse.rdf4j.rio.ntriples.NTriplesUtil;

/**
 * Replays a tape into CQELS 2.0: stored triples, then elements of one triple each, in order. Writes the rows that it
 * emits, a line each, and prints what the second half of the tape took.
 *
 * Arguments: the query, the stored triples, the tape (stream, time, s, p, o with tabs), the file for the rows.
 */
public class CqelsReplay {
    private static final ValueFactory TERMS = SimpleValueFactory.getInstance();
    private static final long QUIET_NS = 1_000_000_000L;
    private static volatile long lastRow;

    record Element(DataStream stream, long time, IRI s, IRI p, Value o) {}

    public static void main(String[] files) throws Exception {
        var rows = Collections.synchronizedList(new ArrayList<Map<String, Object>>());
        try (CQELSEngine engine = CQELSEngine.builder().id("replay").withMemoryStore().build()) {
            store(engine, Path.of(files[1]));
            var elements = elements(engine, Path.of(files[2]));
            engine.registerCqelsQuery(Files.readString(Path.of(files[0])), row -> {
                rows.add(row);
                lastRow = System.nanoTime();
            });
            engine.start();
            int half = elements.size() / 2;
            push(elements.subList(0, half));
            waitUntilQuiet();
            int before = rows.size();
            long cpu = cpu(), began = System.nanoTime();
            push(elements.subList(half, elements.size()));
            long pushed = System.nanoTime();
            long cpuPushed = cpu();
            waitUntilQuiet();
            double seconds = (Math.max(pushed, lastRow) - began) / 1e9;
            System.out.printf(
                "{\"triples\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"rows\": %d}%n",
                elements.size() - half, seconds, (cpuPushed - cpu) / 1e9, rows.size() - before);
        }
        try (PrintWriter out = new PrintWriter(files[3], "UTF-8")) {
            for (Map<String, Object> row : rows) {
                var line = new ArrayList<String>();
                new TreeMap<>(row).forEach((name, value) -> line.add(name + "=" + value));
                out.println(String.join("\t", line));
            }
        }
        System.exit(0);
    }

    private static void store(CQELSEngine engine, Path file) throws Exception {
        try (var connection = engine.getRepository().getConnection(); var lines = Files.lines(file)) {
            connection.begin();
            lines.forEach(line -> {
                String[] parts = line.split(" ", 3);
                Value o = NTriplesUtil.parseValue(parts[2], TERMS);
                connection.add((Resource) NTriplesUtil.parseValue(parts[0], TERMS), NTriplesUtil.parseURI(parts[1], TERMS), o);
            });
            connection.commit();
        }
    }

    private static List<Element> elements(CQELSEngine engine, Path file) throws Exception {
        Map<String, DataStream> streams = new HashMap<>();
        List<Element> found = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            String[] parts = line.split("\t", 5);
            DataStream stream = streams.computeIfAbsent(parts[0], engine::createStream);
            IRI s = NTriplesUtil.parseURI(parts[2], TERMS), p = NTriplesUtil.parseURI(parts[3], TERMS);
            found.add(new Element(stream, Long.parseLong(parts[1]), s, p, NTriplesUtil.parseValue(parts[4], TERMS)));
        }
        return found;
    }

    private static void push(List<Element> elements) {
        for (Element each : elements) {
            each.stream().push(each.s(), each.p(), each.o(), each.time());
        }
    }

    private static void waitUntilQuiet() throws InterruptedException {
        lastRow = System.nanoTime();
        while (System.nanoTime() - lastRow < QUIET_NS) {
            Thread.sleep(50);
        }
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
