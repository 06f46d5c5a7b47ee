// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;
import org.eclipse.jetty.server.handler.ContextHandler;
import org.eclipse.jetty.server.handler.HandlerList;
import org.eclipse.jetty.server.handler.ResourceHandler;
import org.eclipse.jetty.server.handler.gzip.GzipHandler;
import org.eclipse.jetty.util.ssl.SslContextFactory;

/** Jetty with its handlers for files and gzip. */
public class JettyServer {
    static class Answers extends AbstractHandler {
        public void handle(String path, Request base, HttpServletRequest request, HttpServletResponse response)
            throws IOException {
            base.setHandled(true);
            switch (path) {
                case "/echo" -> response.getOutputStream().write(request.getInputStream().readAllBytes());
                case "/chunked" -> {
                    for (int number = 0; number < 3; number++) {
                        response.getOutputStream().print("piece ");
                        response.flushBuffer();
                    }
                }
                case "/refuse" -> response.sendError(413);
                default -> response.sendError(404);
            }
        }
    }

    static KeyStore identity(String certificate, String key) throws Exception {
        var chain = CertificateFactory.getInstance("X.509").generateCertificates(Files.newInputStream(Path.of(certificate)));
        String text = Files.readString(Path.of(key)).replaceAll("-----[A-Z ]*-----|\\s", "");
        var specification = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text));
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        var privateKey = KeyFactory.getInstance("EC").generatePrivate(specification);
        store.setKeyEntry("server", privateKey, new char[0], chain.toArray(new Certificate[0]));
        return store;
    }

    public static void main(String[] arguments) throws Exception {
        var tls = new SslContextFactory.Server();
        tls.setKeyStore(identity(System.getenv("CERTIFICATE"), System.getenv("KEY")));
        tls.setKeyStorePassword("");
        var server = new Server();
        var connector = new ServerConnector(server, tls);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        var resources = new ResourceHandler();
        resources.setResourceBase(System.getenv("SITE"));
        resources.setEtags(true);
        var files = new ContextHandler("/files");
        files.setHandler(resources);
        var gzip = new GzipHandler();
        gzip.setHandler(new HandlerList(new Handler[] { files, new Answers() }));
        server.setHandler(gzip);
        server.start();
        System.out.println(connector.getLocalPort());
    }
}
