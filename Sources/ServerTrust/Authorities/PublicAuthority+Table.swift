// SPDX-License-Identifier: Apache-2.0
/// The table itself. `PublicAuthorityTests` compares it with the trust store of the machine that the tests run on.
///
/// To change it: take the key from a source that can be named, compare it, and move `verified`. A root whose key cannot be
/// compared has a row without one. `docs/pin-rotation.md` says how a new table reaches the pin files.
extension PublicAuthority {
    /// The day on which every key of the table was compared with its source.
    package static let verified = CalendarDate(year: 2026, month: 11, day: 26)!

    private static let debian = "Debian ca-certificates 20230311+deb12u1"
    private static let letsEncrypt = "letsencrypt.org/certs (letsencrypt/website at b89871ef)"
    private static let onlyCopies =
        "only copies of third parties were at hand, none of the CA itself and none in a trust store"

    /// Of generation Y, whose roots are in no store of Debian yet: the older root's key has verified the signature.
    private static func generationY(_ signer: String) -> String { letsEncrypt + ", signed by \(signer)" }

    /// The roots from which it issues for TLS servers, or did. `retired` are those that Mozilla's list of 2026-10-19
    /// (certifi 2026.10.19) has no more.
    package var roots: [Root] {
        Self.table[self] ?? []
    }

    /// Intermediates, so that they are recognised in a pin file without a chain. Only those of
    /// Let's Encrypt are kept.
    package var intermediates: [Root] {
        self == .letsencrypt ? Self.intermediatesOfLetsEncrypt : []
    }

    private static let table: [PublicAuthority: [Root]] = [
        .letsencrypt: [
            .init("ISRG Root X1", "C5+lpZ7tcVwmwQIMcRtPbsQtWLABXhQzejna0wHFr8M=", "2015-06-04", "2035-06-04", debian),
            .init("ISRG Root X2", "diGVwiVYbubAI3RW4hB9xU8e/CH2GnkuvVFZE8zmgzI=", "2020-09-04", "2040-09-17", debian),
            .init(
                "ISRG Root YR",
                "fk6IOKit1ild5647BH06ujSIq5XbCgqlbYl6ANhhi88=",
                "2025-09-03",
                "2045-09-02",
                generationY("ISRG Root X1"),
                .new
            ),
            .init(
                "ISRG Root YE",
                "sCkq5UWXjg+7mKu9lMhhYF5bGLsy7VI/UNW3tccdR7w=",
                "2025-09-03",
                "2045-09-02",
                generationY("ISRG Root X2"),
                .new
            ),
        ],
        .google: [
            .init("GTS Root R1", "hxqRlPTu1bMS/0DITB1SSu0vd4u/8l8TjPgfaAp63Gc=", "2016-06-22", "2036-06-22", debian),
            .init("GTS Root R3", "QXnt2YHvdHR3tJYmQIr0Paosp6t/nggsEGD4QJZ3Q0g=", "2016-06-22", "2036-06-22", debian),
            .init("GTS Root R4", "mEflZT5enoR1FuXLgYYGqnVEoZvmf9c2bVBpiOjYQ0c=", "2016-06-22", "2036-06-22", debian),
            .init(
                "GlobalSign ECC Root CA - R4",
                "CLOmM1/OXvSPjw5UOYbAf9GKOxImEp9hhku9W90fHMk=",
                "2012-11-13",
                "2038-01-19",
                debian
            ),
            .init(
                "GTS Root R2",
                "Vfd95BwDeSQo+NUYxVEEIlvkOlWY2SalKK1lPhzOx78=",
                "2016-06-22",
                "2036-06-22",
                debian,
                .retired
            ),
        ],
        .amazon: [
            .init(
                "Amazon Root CA 1",
                "++MBgDH5WGvL9Bcn5Be30cRcL0f5O+NyoXuWtQdX1aI=",
                "2015-05-26",
                "2038-01-17",
                debian
            ),
            .init(
                "Amazon Root CA 2",
                "f0KW/FtqTjs108NpYj42SrGvOB2PpxIVM8nWxjPqJGE=",
                "2015-05-26",
                "2040-05-26",
                debian
            ),
            .init(
                "Amazon Root CA 3",
                "NqvDJlas/GRcYbcWE8S/IceH9cq77kg0jVhZeAPXq8k=",
                "2015-05-26",
                "2040-05-26",
                debian
            ),
            .init(
                "Amazon Root CA 4",
                "9+ze1cZgR9KO1kZrVDxA4HQ6voHRCSVNz4RdTCx4U8U=",
                "2015-05-26",
                "2040-05-26",
                debian
            ),
            .init(
                "Starfield Services Root Certificate Authority - G2",
                "KwccWaCgrnaw6tsrrSO61FgLacNgG2MMLq8GE6+oP5I=",
                "2009-09-01",
                "2037-12-31",
                debian
            ),
        ],
        .digicert: [
            .init(
                "DigiCert Global Root G2",
                "i7WTqTvh0OioIruIfFR4kMPnBqrS2rdiVPl/s2uC/CY=",
                "2013-08-01",
                "2038-01-15",
                debian
            ),
            .init(
                "DigiCert Global Root G3",
                "uUwZgwDOxcBXrQcntwu+kYFpkiVkOaezL0WYEZ3anJc=",
                "2013-08-01",
                "2038-01-15",
                debian
            ),
            .init(
                "DigiCert TLS ECC P384 Root G5",
                "oC+voZLIy4HLE0FVT5wFtxzKKokLDRKY1oNkfJYe+98=",
                "2021-01-15",
                "2046-01-14",
                debian
            ),
            .init(
                "DigiCert TLS RSA4096 Root G5",
                "ape1HIIZ6T5d7GS61YBs3rD4NVvkfnVwELcCRW4Bqv0=",
                "2021-01-15",
                "2046-01-14",
                debian
            ),
            .init(
                "DigiCert Assured ID Root G2",
                "8ca6Zwz8iOTfUpc8rkIPCgid1HQUT+WAbEIAZOFZEik=",
                "2013-08-01",
                "2038-01-15",
                debian
            ),
            .init(
                "DigiCert Assured ID Root G3",
                "Fe7TOVlLME+M+Ee0dzcdjW/sYfTbKwGvWJ58U7Ncrkw=",
                "2013-08-01",
                "2038-01-15",
                debian
            ),
            .init(
                "DigiCert Trusted Root G4",
                "Wd8xe/qfTwq3ylFNd3IpaqLHZbh2ZNCLluVzmeNkcpw=",
                "2013-08-01",
                "2038-01-15",
                debian
            ),
            .init(
                "DigiCert Global Root CA",
                "r/mIkG3eEpVdm+u/ko/cwxzOMo1bk4TyHIlByibiA5E=",
                "2006-11-10",
                "2031-11-10",
                debian,
                .retired
            ),
            .init(
                "DigiCert Assured ID Root CA",
                "I/Lt/z7ekCWanjD0Cvj5EqXls2lOaThEA0H2Bg4BT/o=",
                "2006-11-10",
                "2031-11-10",
                debian,
                .retired
            ),
            .init(
                "DigiCert High Assurance EV Root CA",
                "WoiWRyIOVNa9ihaBciRSC7XHjliYS9VwUGOIud4PB18=",
                "2006-11-10",
                "2031-11-10",
                debian,
                .retired
            ),
            .init(
                "Baltimore CyberTrust Root",
                "Y9mvm0exBk1JoQ57f9Vm28jKo5lFm/woKcVxrYxu80o=",
                "2000-05-12",
                "2025-05-12",
                debian,
                .retired
            ),
        ],
        .sectigo: [
            .init(
                "Sectigo Public Server Authentication Root E46",
                "sLVjNUaFYfW7n6EtgBeEpjOlcnBdNPMrZDRF36iwBdE=",
                "2021-03-22",
                "2046-03-21",
                debian
            ),
            .init(
                "Sectigo Public Server Authentication Root R46",
                "Douxi77vs4G+Ib/BogbTFymEYq0QSFXwSgVCaZcI09Q=",
                "2021-03-22",
                "2046-03-21",
                debian
            ),
            .init(
                "USERTrust ECC Certification Authority",
                "ICGRfpgmOUXIWcQ/HXPLQTkFPEFPoDyjvH7ohhQpjzs=",
                "2010-02-01",
                "2038-01-18",
                debian
            ),
            .init(
                "USERTrust RSA Certification Authority",
                "x4QzPSC810K5/cMjb05Qm4k3Bw5zBn4lTdO/nEW/Td4=",
                "2010-02-01",
                "2038-01-18",
                debian
            ),
            .init(
                "COMODO ECC Certification Authority",
                "58qRu/uxh4gFezqAcERupSkRYBlBAvfcw7mEjGPLnNU=",
                "2008-03-06",
                "2038-01-18",
                debian
            ),
            .init(
                "COMODO RSA Certification Authority",
                "grX4Ta9HpZx6tSHkmCrvpApTQGo67CYDnvprLg5yRME=",
                "2010-01-19",
                "2038-01-18",
                debian
            ),
            .init(
                "COMODO Certification Authority",
                "AG1751Vd2CAmRCxPGieoDomhmJy4ezREjtIZTBgZbV4=",
                "2006-12-01",
                "2029-12-31",
                debian,
                .retired
            ),
        ],
        .globalsign: [
            .init(
                "GlobalSign Root E46",
                "4EoCLOMvTM8sf2BGKHuCijKpCfXnUUR/g/0scfb9gXM=",
                "2019-03-20",
                "2046-03-20",
                debian
            ),
            .init(
                "GlobalSign Root R46",
                "rn+WLLnmp9v3uDP7GPqbcaiRdd+UnCMrap73yz3yu/w=",
                "2019-03-20",
                "2046-03-20",
                debian
            ),
            .init(
                "GlobalSign Root CA - R3",
                "cGuxAXyFXFkWm61cF4HPWX8S0srS9j0aSqN0k4AP+4A=",
                "2009-03-18",
                "2029-03-18",
                debian
            ),
            .init(
                "GlobalSign ECC Root CA - R5",
                "fg6tdrtoGdwvVFEahDVPboswe53YIFjqbABPAdndpd8=",
                "2012-11-13",
                "2038-01-19",
                debian
            ),
            .init(
                "GlobalSign Root CA - R6",
                "aCdH+LpiG4fN07wpXtXKvOciocDANj0daLOJKNJ4fx4=",
                "2014-12-10",
                "2034-12-10",
                debian
            ),
            .init(
                "GlobalSign Root CA",
                "K87oWBWM9UZfyddvDfoxL+8lpNyoUB2ptGtn0fv6G2Q=",
                "1998-09-01",
                "2028-01-28",
                debian,
                .retired
            ),
        ],
        .microsoft: [
            .init(
                "Microsoft ECC Root Certificate Authority 2017",
                "NfU84SZGEeAzQP434ex9TMmGxWE9ynD9BKpEVF8tryg=",
                "2019-12-18",
                "2042-07-18",
                debian
            ),
            .init(
                "Microsoft RSA Root Certificate Authority 2017",
                "svcpi1K/LDysTd/nLeTWgqxYlXWVmC8rYjAa9ZfGmcU=",
                "2019-12-18",
                "2042-07-18",
                debian
            ),
            .init(unverified: "Microsoft TLS RSA Root G2", onlyCopies),
            .init(unverified: "Microsoft TLS ECC Root G2", onlyCopies),
        ],
    ]

    private static let intermediatesOfLetsEncrypt: [Root] = [
        .init(
            "Let's Encrypt YE1",
            "brzvtCELCIZUo4sD/qPX0ccRtPsd3DY6RfmxpOU9oB4=",
            "2025-09-03",
            "2028-09-02",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt YE2",
            "s/tdAOmUzd8syaTuqfgGvFcn6DzA5Cmb+Vby1ST+U3Y=",
            "2025-09-03",
            "2028-09-02",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt YE3",
            "ppiiCCS+BOR6GjPE+kiHMb6SAR8jox6QDiyibJwqz84=",
            "2025-09-03",
            "2028-09-02",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt YR1",
            "LoMHBotttiDko50Gi13uXW71eIy7LAttI+rYT8wXF4w=",
            "2025-09-03",
            "2028-09-02",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt YR2",
            "nWN7PSep5XDQdge5zK24CnCRXHr3KvzhKEGxsdqCX9E=",
            "2025-09-03",
            "2028-09-02",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt YR3",
            "UaqofZhLVZrGnpKfiIoCLYMuCJ/026CkErUQG8pLx5k=",
            "2025-09-03",
            "2028-09-02",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt E5",
            "NYbU7PBwV4y9J67c4guWTki8FJ+uudrXL0a4V4aRcrg=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt E6",
            "0Bbh/jEZSKymTy3kTOhsmlHKBB32EDu1KojrP3YfV9c=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt E7",
            "y7xVm0TVJNahMr2sZydE2jQH8SquXV9yLF9seROHHHU=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt E8",
            "iFvwVyJSxnQdyaUvUERIf+8qk7gRze3612JMwoO3zdU=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt E9",
            "8UQKm3bh5B5TpMtGEym/Yze0GXJr5RPkLhnxxpHF1LI=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt R10",
            "K7rZOrXHknnsEhUH8nLL4MZkejquUuIvOIr6tCa0rbo=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt R11",
            "bdrBhpj38ffhxpubzkINl0rG+UyossdhcBYj+Zx2fcc=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt R12",
            "kZwN96eHtZftBWrOZUsd6cA4es80n3NzSk/XtYz2EqQ=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt R13",
            "AlSQhgtJirc8ahLyekmtX+Iw+v46yPYRLJt9Cq1GlB0=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
        .init(
            "Let's Encrypt R14",
            "8WR6XuPvrFTIkukwWE/keXm3rNHHbBJxvKHFB22GmIg=",
            "2024-03-13",
            "2027-03-12",
            letsEncrypt
        ),
    ]
}

extension PublicAuthority.Root {
    /// A text that is no pin or no day makes a row that is not verified: no other key can come of it.
    fileprivate init(
        _ name: String,
        _ pin: String,
        _ firstDay: String,
        _ lastDay: String,
        _ source: String,
        _ state: State = .trusted
    ) {
        self.name = name
        self.pin = try? PublicKeyPin(pin)
        self.firstDay = CalendarDate(firstDay)
        self.lastDay = CalendarDate(lastDay)
        self.source = source
        self.state = self.pin == nil ? .unverified : state
    }

    fileprivate init(unverified name: String, _ why: String) {
        self.init(name, "", "", "", why)
    }
}
