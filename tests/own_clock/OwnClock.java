import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;

/** A Java agent that puts the SystemTime of this directory in the place of Kafka's. */
public class OwnClock implements ClassFileTransformer {
    private static final String REPLACED = "org/apache/kafka/common/utils/SystemTime";

    public static void premain(String aheadFile, Instrumentation instrumentation) {
        System.setProperty("own.clock", aheadFile);
        instrumentation.addTransformer(new OwnClock());
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
        if (!REPLACED.equals(name)) {
            return null;
        }
        // By its name in the jar of this agent, which comes after Kafka's on the class path.
        String jar = OwnClock.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        try (var file = new java.util.jar.JarFile(jar);
                InputStream replacing = file.getInputStream(file.getEntry(REPLACED + ".class"))) {
            return replacing.readAllBytes();
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
