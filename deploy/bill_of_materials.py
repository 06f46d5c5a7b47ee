# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a package, an archive or an image, in SPDX 2.3: what is in it, what it loads, and the licence of each.

    deploy/bill_of_materials.py FILE.deb|FILE.tar.xz VERSION PROGRAM       writes FILE.spdx.json beside it

PROGRAM is the program in the file, whose libraries this machine has: their packages are what the program was built and tested
with. Licences are those of Debian's copyright files (DEP-5): the licence of a package is that of its paragraph `Files: *`; licences
of single files of its source are named in a comment. A licence that has no name in SPDX is quoted. deploy/make-image uses the same
functions for what it puts into the image. SOURCE_DATE_EPOCH is the time of the document: the same files give the same bytes.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import time

CREATED = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
# Debian's short names that SPDX writes differently.
SHORT_NAMES = {
    "apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "artistic": "Artistic-1.0-Perl", "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause",
    "bsd3": "BSD-3-Clause", "bsd-3-clause-attribution": "BSD-3-Clause-Attribution", "bsd-4-clause": "BSD-4-Clause",
    "bsd-4-clause-uc": "BSD-4-Clause-UC", "curl": "curl", "expat": "MIT", "fsfullr": "FSFULLR",
    "isc": "ISC", "mit": "MIT", "mpl-1.1": "MPL-1.1", "mpl-2.0": "MPL-2.0", "openldap-2.8": "OLDAP-2.8", "oldap-2.8": "OLDAP-2.8", "openssl": "OpenSSL",
    "unicode": "Unicode-DFS-2016", "x11": "X11", "zlib": "Zlib",
}
# What the program loads by itself, for SOCKS proxies.
LOADED = "libcurl.so.4"
GNU = re.compile(r"^(L?GPL|GFDL)-([\d.]+)(\+?)$")
# Read by hand: the copyright file is prose, or its paragraph `Files: *` is not that of the library.
READ = {
    "base-files": "GPL-2.0-or-later", "ca-certificates": "MPL-2.0 AND GPL-2.0-or-later", "libcom-err2": "MIT",
    "libidn2-0": "LGPL-3.0-or-later OR GPL-2.0-or-later", "libkeyutils1": "LGPL-2.0-or-later", "libsqlite3-0": "blessing",
    "libc-ares2": "MIT", "libcares2": "MIT", "libc6": "LGPL-2.1-or-later", "libcrypt1": "LGPL-2.1-or-later",
    "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1", "libstdc++6": "GPL-3.0-or-later WITH GCC-exception-3.1", "libgnutls30": "LGPL-2.1-or-later",
    "libgnutls30t64": "LGPL-2.1-or-later", "libgssapi-krb5-2": "MIT", "libk5crypto3": "MIT", "libkrb5-3": "MIT", "libkrb5support0": "MIT",
    "librtmp1": "LGPL-2.1-or-later", "libtasn1-6": "LGPL-2.1-or-later",
}


def run(*words, **options):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, **options).stdout


def spdx_name(name):
    """The name of one licence in SPDX, or nil for one that SPDX does not know."""
    name = name.strip()
    if name.lower() in SHORT_NAMES:
        return SHORT_NAMES[name.lower()]
    if match := GNU.match(name):
        version = match[2] if "." in match[2] else match[2] + ".0"
        return f"{match[1]}-{version}-{'or-later' if match[3] else 'only'}"
    return None


def paragraphs(text):
    """The fields of each paragraph of a DEP-5 file."""
    for part in re.split(r"\n\s*\n", text):
        fields, last = {}, None
        for line in part.split("\n"):
            if line[:1] in (" ", "\t") and last:
                fields[last] += "\n" + line
            elif match := re.match(r"([A-Za-z-]+):\s*(.*)$", line):
                last = match[1].lower()
                fields[last] = match[2]
        yield fields


class Licences:
    """The licences of packages, with the text of those that SPDX has no name for."""

    def __init__(self):
        self.extracted = {}

    def quoted(self, name, text):
        reference = "LicenseRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-")
        self.extracted.setdefault(reference, {"licenseId": reference, "name": name, "extractedText": text.strip() or name})
        return reference

    def of_package(self, package, text):
        """What is declared, and a comment about single files."""
        if package in READ:
            return READ[package], None
        parts = list(paragraphs(text))
        if "format" not in parts[0]:
            return self.quoted(f"{package}-copyright", text), None
        texts = {part["license"].split("\n")[0].strip(): part["license"] for part in parts if "license" in part and "\n" in part["license"]}
        main = next((part["license"] for part in parts if part.get("files", "").split()[:1] == ["*"] and "license" in part), None)
        if main is None:
            return self.quoted(f"{package}-copyright", text), None
        short = main.split("\n")[0].strip()
        others = sorted({part["license"].split("\n")[0].strip() for part in parts if "files" in part and "license" in part} - {short})

        def one(name):
            found = spdx_name(name)
            return found or self.quoted(f"{package}-{name}", texts.get(name) or text)

        # "A or B and C": `and` binds first, as in DEP-5.
        choices = [" AND ".join(one(name) for name in re.split(r",?\s+and\s+", choice)) for choice in re.split(r",?\s+or\s+", short)]
        expression = " OR ".join(choices)
        return expression, f"Single files of the source: {', '.join(others)}" if others else None


def fields_of(text):
    return dict(line.split(": ", 1) for line in text.split("\n") if re.match(r"[A-Z][A-Za-z-]*: ", line))


def identifier(name):
    return "SPDXRef-" + re.sub("[^A-Za-z0-9.-]", "-", name)


def debian_entry(fields, release, copyright_text, licences, checksum=None):
    """The entry of a package of Debian, or of pinproxy's own."""
    name, version = fields["Package"], fields["Version"]
    declared, comment = ("Apache-2.0", None) if name == "pinproxy" else licences.of_package(name, copyright_text)
    entry = {
        "SPDXID": identifier(name),
        "name": name,
        "versionInfo": version,
        "supplier": "Person: " + re.sub(r"<(.*)>", r"(\1)", fields["Maintainer"]),
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": declared,
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}"
                f"?arch={fields['Architecture']}&distro={release}",
            }
        ],
    }
    if comment:
        entry["licenseComments"] = comment
    if checksum:
        entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": checksum}]
    return entry


def swift_entry():
    """The part of Swift that is linked in."""
    return {
        "SPDXID": "SPDXRef-swift-runtime",
        "name": "swift-runtime",
        "versionInfo": re.search(r"Swift version (\S+)", run(os.environ.get("SWIFT") or "swift", "--version", stderr=subprocess.DEVNULL).decode())[1],
        "supplier": "Organization: Swift project",
        "downloadLocation": "https://www.swift.org/install/linux/",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "Apache-2.0 WITH Swift-exception",
        "copyrightText": "NOASSERTION",
    }


def document(version, kind, main, entries, relations, checksum, licences):
    """The document about `main`, which contains or needs the entries."""
    made = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"pinproxy-{version}" + ("" if kind == "image" else f"-{kind}"),
        "documentNamespace": f"https://spdx.org/spdxdocs/pinproxy-{version}-{checksum}",
        "creationInfo": {"created": CREATED, "creators": [f"Tool: pinproxy-make-{kind}"]},
        "documentDescribes": [main["SPDXID"]],
        "packages": [main] + entries,
        "relationships": [
            {"spdxElementId": first, "relationshipType": relation, "relatedSpdxElement": second}
            for first, relation, second in [("SPDXRef-DOCUMENT", "DESCRIBES", main["SPDXID"])] + relations
        ],
    }
    if licences.extracted:
        made["hasExtractedLicensingInfos"] = [licences.extracted[name] for name in sorted(licences.extracted)]
    return made


def write(path, made):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(made, file, indent=2, sort_keys=True)
        file.write("\n")


def loaded(name):
    """The path of a library that the program is not linked with."""
    for line in run("/sbin/ldconfig", "-p").decode().split("\n"):
        if found := re.match(rf"\s*{re.escape(name)} .*=> (/\S+)", line):
            return found[1]
    sys.exit(f"deploy/bill_of_materials.py: {name} is not installed")


def needed_packages(program):
    """The packages whose libraries the program loads, as this machine has them."""
    # A library, with the paths by which its package may name it.
    wanted = {}
    library = loaded(LOADED)
    linked = [re.search(r"(?:=> )?(/\S+)", line) for file in [program, library] for line in run("ldd", file).decode().split("\n")]
    for path in [library, *(found[1] for found in linked if found)]:
        real = os.path.realpath(path)
        wanted[real] = {real, real.removeprefix("/usr"), path}
    # It ends with an error when it does not know one of them.
    paths = sorted(set().union(*wanted.values()))
    told = subprocess.run(["dpkg-query", "-S", *paths], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    # It also tells of diversions, such as that of the loader's old place in Debian 13; they name no owner.
    lines = [line.rsplit(": ", 1) for line in told.splitlines() if not re.match("(local )?diversion ", line)]
    owners = {path: names.split(":")[0].split(",")[0] for names, path in lines}
    for real, candidates in wanted.items():
        if not candidates & owners.keys():
            sys.exit(f"deploy/bill_of_materials.py: no package has {real}")
    return sorted({owners[path] for candidates in wanted.values() for path in candidates & owners.keys()})


def main():
    path, version, program = sys.argv[1:]
    release = re.search(r"VERSION_CODENAME=(\S+)", open("/etc/os-release", encoding="utf-8").read())[1]
    licences, entries, relations = Licences(), [], []
    for name in needed_packages(program):
        with open(f"/usr/share/doc/{name}/copyright", encoding="utf-8", errors="replace") as file:
            text = file.read()
        entries.append(debian_entry(fields_of(run("dpkg-query", "--status", name).decode()), release, text, licences))
        # The archive brings its allocator along; everything else is the system's.
        brought = name.startswith("libmimalloc") and not path.endswith(".deb")
        relations.append(("SPDXRef-pinproxy", "CONTAINS" if brought else "DEPENDS_ON", identifier(name)))
    with open(path, "rb") as file:
        checksum = hashlib.sha256(file.read()).hexdigest()
    kind = "deb" if path.endswith(".deb") else "dist"
    if kind == "deb":
        own = debian_entry(fields_of(run("dpkg-deb", "--field", path).decode()), release, "", licences, checksum)
    else:
        own = {
            "SPDXID": "SPDXRef-pinproxy",
            "name": "pinproxy",
            "versionInfo": version,
            "supplier": "NOASSERTION",
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "checksums": [{"algorithm": "SHA256", "checksumValue": checksum}],
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "Apache-2.0",
            "copyrightText": "NOASSERTION",
        }
    own["packageFileName"] = os.path.basename(path)
    own["primaryPackagePurpose"] = "INSTALL" if kind == "deb" else "ARCHIVE"
    entries.append(swift_entry())
    relations.append(("SPDXRef-pinproxy", "STATIC_LINK", "SPDXRef-swift-runtime"))
    target = re.sub(r"\.(deb|tar\.xz)$", "", path) + ".spdx.json"
    write(target, document(version, kind, own, entries, relations, checksum, licences))
    print(target)


if __name__ == "__main__":
    main()
