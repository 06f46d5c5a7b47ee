import CShims
import Glibc
import HTTPCore
import IOCore
import ProxyCore
import ServerTrust

pinproxy_block_signals()
