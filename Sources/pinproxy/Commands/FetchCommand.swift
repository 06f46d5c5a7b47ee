// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

extension Command {
    static let fetch = Command(
        name: "fetch",
        summary: "make one request, with pins, progress, resume and metrics",
        options: [
            .fetchConfig, .requestMethod, .header, .data, .form, .uploadFile, .output, .continueAt, .include,
            .noRedirect, .http2, .anchors, .connect, .totalTimeout, .metrics, .fetchJSON,
        ],
        operands: .one("URL"),
        explanation: [
            """
            Makes one request through the session core, as the proxy does: with --config under the same pins, anchors, \
            resolve addresses and rules on addresses; without, under chain and host checks. There is no option to \
            switch those off. GET unless something is to be sent.
            """,
            """
            The body goes to the standard output, or with -o to a file, which appears when it is whole (a symbolic link stays, \
            and what it leads to is replaced), or as it comes to a device or FIFO. What has come \
            of a download that breaks off (or is interrupted) is kept beside it, and -C - goes on with it if the server \
            still has the same version.
            """,
            """
            Exit code 0 for an answer below 400; 1 for any other answer, whose body does not go to a file; 68 an unknown \
            host, 69 no connection, 75 a timeout, 76 a broken answer or TLS handshake, 77 a server or an address that \
            the policy refuses.
            """,
        ],
        examples: [
            Example(
                line: "pinproxy fetch --config config.json --metrics https://api.example.com/v1/health",
                meaning: "Under the pins of the configuration, with the time that each phase took."
            ),
            Example(
                line: "pinproxy fetch -o image.iso -C - https://download.example.com/image.iso",
                meaning: "A large file; the same line again goes on where the last one ended."
            ),
            Example(
                line: "pinproxy fetch -F title=Report -F file=@report.pdf https://api.example.com/reports",
                meaning: "A form with a file."
            ),
        ]
    ) { arguments throws(CommandFailure) in
        // All threads inherit the mask, so it is set before the first one starts. The signals wait for the thread that
        // reads them.
        pinproxy_block_signals()
        return try FetchRun(FetchPlan(arguments)).run()
    }
}

extension Command.Option {
    fileprivate static let fetchConfig = configuration(
        "a configuration: its pins, anchors, hosts and rules on addresses hold"
    )
    fileprivate static let requestMethod = Command.Option(
        name: "request",
        value: "METHOD",
        summary: "the method, where it is not the one that goes with what is sent",
        letter: "X"
    )
    fileprivate static let header = Command.Option(
        name: "header",
        value: "\"NAME: VALUE\"",
        summary: "a header field; may be repeated",
        letter: "H",
        repeats: true
    )
    fileprivate static let data = Command.Option(
        name: "data",
        value: "DATA",
        summary: "POST these bytes; @FILE sends a file, @- the standard input; several are joined with &",
        letter: "d",
        repeats: true
    )
    fileprivate static let form = Command.Option(
        name: "form",
        value: "NAME=VALUE",
        summary: "POST a multipart form; NAME=@FILE sends a file, NAME=@FILE;type=TYPE says what it is",
        letter: "F",
        repeats: true
    )
    fileprivate static let uploadFile = Command.Option(
        name: "upload-file",
        value: "FILE",
        summary: "PUT a file; - sends the standard input as it comes",
        letter: "T"
    )
    fileprivate static let output = Command.Option(
        name: "output",
        value: "FILE",
        summary:
            "write the body to FILE, when it is whole; a file that is there is replaced, a device or FIFO is written to",
        letter: "o"
    )
    fileprivate static let continueAt = Command.Option(
        name: "continue-at",
        value: "-",
        summary: "with -o: go on with the download that broke off, or begin it",
        letter: "C"
    )
    fileprivate static let include = Command.Option(
        name: "include",
        summary: "print the head of the response before the body",
        letter: "i"
    )
    fileprivate static let noRedirect = Command.Option(
        name: "no-redirect",
        summary: "do not follow redirects"
    )
    fileprivate static let http2 = Command.Option(
        name: "http2",
        summary: "offer HTTP/2 (with --config the hosts' httpVersion says it)"
    )
    fileprivate static let totalTimeout = Command.Option(
        name: "timeout",
        value: "TIME",
        summary: "for all of it: 500ms, 10s, 1m; without it a connection may take 10s, a silence 60s"
    )
    fileprivate static let metrics = Command.Option(
        name: "metrics",
        summary: "print how long each phase took, on the standard error"
    )
    fileprivate static let fetchJSON = Command.Option(
        name: "json",
        summary: "print an account of the request as one JSON line: on the standard output with -o, else on the other"
    )
}
