"""Prints ports of 127.0.0.1 that are free, each with the one 10,000 above it, which a Redis node of a cluster takes.

usage: free_ports.py COUNT
"""
import os
import socket
import sys


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def main() -> int:
    # Below those that the system gives to connections.
    port = 12000 + os.getpid() * 37 % 8000
    for _ in range(int(sys.argv[1])):
        while not (is_free(port) and is_free(port + 10000)):
            port += 1
        print(port)
        port += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
