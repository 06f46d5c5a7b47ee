// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.net.Authenticator;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.PasswordAuthentication;
import java.net.Proxy;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.util.HexFormat;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

class JavaConnection {
    static final String base = System.getenv("BASE");

    static void trust(Path file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (var stream = Files.newInputStream(file)) {
            for (var certificate : CertificateFactory.getInstance("X.509").generateCertificates(stream)) {
                store.setCertificateEntry("" + store.size(), certificate);
            }
        }
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        HttpsURLConnection.setDefaultSSLSocketFactory(context.getSocketFactory());
    }

    static HttpURLConnection open(String url, String variable) throws Exception {
        URI proxy = URI.create(System.getenv(variable));
        var address = new InetSocketAddress(proxy.getHost(), proxy.getPort());
        var connection = (HttpURLConnection) URI.create(url).toURL().openConnection(new Proxy(Proxy.Type.HTTP, address));
        connection.setReadTimeout(30_000);
        return connection;
    }

    static HttpURLConnection open(String url) throws Exception { return open(url, "PROXY"); }

    static byte[] body(HttpURLConnection connection) throws IOException {
        try (var stream = connection.getResponseCode() < 400 ? connection.getInputStream() : connection.getErrorStream()) {
            return stream.readAllBytes();
        }
    }

    static String text(HttpURLConnection connection) throws IOException {
        return new String(body(connection)) + " " + connection.getResponseCode();
    }

    static HttpURLConnection send(HttpURLConnection connection, String method, byte[] body) throws IOException {
        connection.setRequestMethod(method);
        connection.setDoOutput(true);
        connection.setFixedLengthStreamingMode(body.length);
        try (var stream = connection.getOutputStream()) { stream.write(body); }
        return connection;
    }

    public static void main(String[] arguments) throws Exception {
        trust(Path.of(System.getenv("CA")));
        System.out.println("get " + text(open(base + "/hello")));
        System.out.println("post " + text(send(open(base + "/echo"), "POST", "some fields".getBytes())));
        int refused = open(base + "/hello", "AUTH_PROXY").getResponseCode();
        Authenticator.setDefault(new Authenticator() {
            protected PasswordAuthentication getPasswordAuthentication() {
                return new PasswordAuthentication("user", "password".toCharArray());
            }
        });
        System.out.println("auth " + refused + " " + open(base + "/hello", "AUTH_PROXY").getResponseCode());
        var digest = MessageDigest.getInstance("SHA-256");
        System.out.println("download " + HexFormat.of().formatHex(digest.digest(body(open(base + "/large")))));
        byte[] part = Files.readAllBytes(Path.of(System.getenv("PART")));
        var connection = open(base + "/large");
        connection.setRequestProperty("Range", "bytes=" + part.length + "-");
        digest.update(part);
        System.out.println("resume " + HexFormat.of().formatHex(digest.digest(body(connection))));
        byte[] upload = Files.readAllBytes(Path.of(System.getenv("UPLOAD")));
        System.out.println("upload " + new String(body(send(open(base + "/upload"), "PUT", upload))));
        connection = open(base + "/redirect");
        System.out.println("redirect " + text(connection) + " " + connection.getURL());
        // It prefers text/html, and gets a page.
        connection = open(System.getenv("WRONG") + "/hello");
        String error = new String(body(connection)).replaceAll("(?s).*\\b(pin_[a-z]+)\\b.*", "$1");
        System.out.println("error " + connection.getResponseCode() + " " + error);
        for (int number = 1; number <= 2; number++) body(open(base + "/keep/" + System.getenv("NAME") + "/" + number));
        System.out.println("keep done");
        System.out.println("intercept " + text(open(System.getenv("INNER") + "/hello")));
        try {
            text(open(System.getenv("SECURE") + "/hello"));
        } catch (IOException failure) {
            System.out.println("connect " + (failure.getMessage().contains("403") ? "403" : failure));
        }
        System.out.println("gateway " + text(
            (HttpURLConnection) URI.create(System.getenv("GATEWAY") + "/hello").toURL().openConnection(Proxy.NO_PROXY)));
    }
}
