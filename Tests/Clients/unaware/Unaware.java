// SPDX-License-Identifier: Apache-2.0
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Asks for URLs, and knows of no proxy. Java reads no variable for the CAs that it trusts. */
class Unaware {
    public static void main(String[] urls) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (var file = Files.newInputStream(Path.of(System.getenv("SSL_CERT_FILE")))) {
            int number = 0;
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(file)) {
                store.setCertificateEntry("ca" + number++, certificate);
            }
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        HttpClient client = HttpClient.newBuilder().sslContext(context).build();
        for (String url : urls) {
            var response = client.send(HttpRequest.newBuilder(URI.create(url)).build(), BodyHandlers.ofString());
            System.out.println("java " + response.statusCode() + " " + response.body());
        }
    }
}
