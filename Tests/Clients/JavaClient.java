// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.net.Authenticator;
import java.net.InetSocketAddress;
import java.net.PasswordAuthentication;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.WebSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

class JavaClient {
    static final HttpClient client = through("PROXY").build();

    static HttpClient.Builder through(String variable) {
        URI proxy = URI.create(System.getenv(variable));
        return HttpClient.newBuilder()
            .proxy(ProxySelector.of(new InetSocketAddress(proxy.getHost(), proxy.getPort())))
            .sslContext(trusting(Path.of(System.getenv("CA"))))
            .followRedirects(HttpClient.Redirect.NORMAL);
    }

    static class Login extends Authenticator {
        protected PasswordAuthentication getPasswordAuthentication() {
            return new PasswordAuthentication("user", "password".toCharArray());
        }
    }

    static SSLContext trusting(Path file) {
        try (var stream = Files.newInputStream(file)) {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null);
            for (var certificate : CertificateFactory.getInstance("X.509").generateCertificates(stream)) {
                store.setCertificateEntry("" + store.size(), certificate);
            }
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

    static HttpResponse<byte[]> ask(HttpRequest request) throws Exception { return ask(client, request); }

    static HttpResponse<byte[]> ask(HttpClient client, HttpRequest request) throws Exception {
        return client.send(request, BodyHandlers.ofByteArray());
    }

    // A word that comes back. By a client of its own: JDK 17 takes a kept connection to the proxy for one to the origin.
    static String socket(String url) throws Exception {
        var heard = new CompletableFuture<String>();
        var socket = through("PROXY").build().newWebSocketBuilder().buildAsync(URI.create(url.replaceFirst("http", "ws") + "/socket"),
            new WebSocket.Listener() {
                public CompletionStage<?> onText(WebSocket socket, CharSequence text, boolean isLast) {
                    heard.complete(text.toString());
                    return null;
                }
            }).get(30, TimeUnit.SECONDS);
        socket.sendText("hello", true);
        return heard.get(30, TimeUnit.SECONDS);
    }

    static String text(HttpResponse<byte[]> answer) { return new String(answer.body()); }

    public static void main(String[] arguments) throws Exception {
        String base = System.getenv("BASE");
        var answer = ask(to(base + "/hello").build());
        System.out.println("get " + text(answer) + " " + answer.statusCode());
        answer = ask(to(base + "/echo").POST(BodyPublishers.ofString("some fields")).build());
        System.out.println("post " + text(answer) + " " + answer.statusCode());
        var request = to(base + "/hello").build();
        var refused = ask(through("AUTH_PROXY").build(), request);
        answer = ask(through("AUTH_PROXY").authenticator(new Login()).build(), request);
        System.out.println("auth " + refused.statusCode() + " " + answer.statusCode());
        answer = ask(to(base + "/large").build());
        var digest = MessageDigest.getInstance("SHA-256");
        System.out.println("download " + HexFormat.of().formatHex(digest.digest(answer.body())));
        byte[] part = Files.readAllBytes(Path.of(System.getenv("PART")));
        answer = ask(to(base + "/large").header("Range", "bytes=" + part.length + "-").build());
        digest.update(part);
        System.out.println("resume " + HexFormat.of().formatHex(digest.digest(answer.body())));
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
        System.out.println("secureSocket " + socket(System.getenv("INNER")));
        System.out.println("socket " + socket(System.getenv("INNER").replace("https", "http")));
        answer = ask(to(System.getenv("INNER") + "/hello").build());
        System.out.println("intercept " + text(answer) + " " + answer.statusCode());
        try {
            ask(to(System.getenv("SECURE") + "/hello").build());
        } catch (IOException failure) {
            System.out.println("connect " + (failure.getMessage().contains("403") ? "403" : failure));
        }
        answer = ask(HttpClient.newHttpClient(), to(System.getenv("GATEWAY") + "/hello").build());
        System.out.println("gateway " + text(answer) + " " + answer.statusCode());
    }
}
