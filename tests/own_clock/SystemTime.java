package org.apache.kafka.common.utils;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Supplier;
import org.apache.kafka.common.errors.TimeoutException;

/** The machine's clock, and as many milliseconds more as a file says. */
class SystemTime implements Time {
    private static final SystemTime SYSTEM_TIME = new SystemTime();
    private static volatile long aheadMs;

    static {
        Path file = Path.of(System.getProperty("own.clock"));
        Thread reader = new Thread(() -> {
            try {
                while (true) {
                    aheadMs = Long.parseLong(Files.readString(file));
                    Thread.sleep(50);
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        });
        reader.setDaemon(true);
        reader.start();
    }

    public static SystemTime getSystemTime() {
        return SYSTEM_TIME;
    }

    @Override
    public long milliseconds() {
        return System.currentTimeMillis() + aheadMs;
    }

    @Override
    public long nanoseconds() {
        return System.nanoTime();
    }

    @Override
    public void sleep(long ms) {
        Utils.sleep(ms);
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) throws InterruptedException {
        synchronized (object) {
            while (!condition.get()) {
                long leftMs = deadlineMs - milliseconds();
                if (leftMs <= 0) {
                    throw new TimeoutException("the deadline has passed");
                }
                object.wait(leftMs);
            }
        }
    }
}
