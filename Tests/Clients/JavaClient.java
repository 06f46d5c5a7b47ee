import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.HexFormat;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

class JavaClient {
    static final HttpClient client;

    static {
        URI proxy = URI.create(System.getenv("PROXY"));
        client = HttpClient.newBuilder()
            .proxy(ProxySelector.of(new InetSocketAddress(proxy.getHost(), proxy.getPort())))
            .sslContext(trusting(Path.of(System.getenv("CA"))))
            .followRedirects(HttpClient.Redirect.NORMAL).build();
    }

    static SSLContext trusting(Path file) {
        try (var stream = Files.newInputStream(file)) {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null);
            store.setCertificateEntry("local", CertificateFactory.getInstance("X.509").generateCertificate(stream));
            var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            managers.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, managers.getTrustManagers(), null);
            return context;
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    static HttpRequest.Builder to(String url) {
        return HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(30));
    }

    static HttpResponse<byte[]> ask(HttpRequest request) throws Exception {
        return client.send(request, BodyHandlers.ofByteArray());
    }

    static String text(HttpResponse<byte[]> answer) { return new String(answer.body()); }

    public static void main(String[] arguments) throws Exception {
        String base = System.getenv("BASE");
        var answer = ask(to(base + "/hello").build());
        System.out.println("get " + text(answer) + " " + answer.statusCode());
        answer = ask(to(base + "/echo").POST(BodyPublishers.ofString("some fields")).build());
        System.out.println("post " + text(answer) + " " + answer.statusCode());
        answer = ask(to(base + "/large").build());
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(answer.body());
        System.out.println("download " + HexFormat.of().formatHex(digest));
        // It asks before it sends the body: Expect: 100-continue.
        answer = ask(to(base + "/upload").expectContinue(true)
            .PUT(BodyPublishers.ofFile(Path.of(System.getenv("UPLOAD")))).build());
        System.out.println("upload " + text(answer));
        answer = ask(to(base + "/redirect").build());
        System.out.println("redirect " + text(answer) + " " + answer.statusCode() + " " + answer.uri());
        answer = ask(to(System.getenv("WRONG") + "/hello").build());
        String error = text(answer).replaceAll("(?s).*\"error\":\"([a-z_]*)\".*", "$1");
        System.out.println("error " + answer.statusCode() + " " + error);
        for (int number = 1; number <= 2; number++) {
            ask(to(base + "/keep/" + System.getenv("NAME") + "/" + number).build());
        }
        System.out.println("keep done");
        answer = ask(to(System.getenv("INNER") + "/hello").build());
        System.out.println("intercept " + text(answer) + " " + answer.statusCode());
        try {
            ask(to(System.getenv("SECURE") + "/hello").build());
        } catch (IOException failure) {
            System.out.println("connect " + (failure.getMessage().contains("403") ? "403" : failure));
        }
    }
}
