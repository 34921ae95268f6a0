"""Two machines on this one: network namespaces with a link between them. It takes Linux and root."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.helpers.processes import limited

ADDRESSES = ("10.77.0.1", "10.77.0.2")
_NAMES = [f"fewset-{os.getpid()}-{host}" for host in (0, 1)]
INTERFACES = [f"fw{os.getpid() % 10**7}{host}" for host in (0, 1)]


def available() -> bool:
    """Whether this process may make network namespaces."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    made = subprocess.run(["ip", "netns", "add", _NAMES[0]], capture_output=True, check=False)
    _remove()
    return made.returncode == 0


@contextmanager
def two_hosts() -> Iterator[None]:
    try:
        for name in _NAMES:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        first = "link", "add", INTERFACES[0], "netns", _NAMES[0], "type", "veth"
        _ip(*first, "peer", "name", INTERFACES[1], "netns", _NAMES[1])
        for name, interface, address in zip(_NAMES, INTERFACES, ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", interface)
            _ip("-n", name, "link", "set", interface, "up")
        yield
    finally:
        _remove()


def cut_link() -> None:
    """Send all packets to a machine that is not there: connections stay open, and nothing comes."""
    for host in (0, 1):
        words = ADDRESSES[1 - host], "lladdr", "02:00:00:00:00:09", "dev", INTERFACES[host]
        _ip("-n", _NAMES[host], "neigh", "replace", *words, "nud", "permanent")


def torchrun_on(
    host: int, *words: object, restarts: int = 0, interface: bool = True
) -> AbstractContextManager["subprocess.Popen[str]"]:
    """torchrun with one process on a machine, as docs/distributed.md has it; the machine is "localhost"."""
    command = ["ip", "netns", "exec", _NAMES[host], "unshare", "--uts", "sh", "-c"]
    command += ['hostname localhost; exec "$0" "$@"', sys.executable, "-m", "torch.distributed.run"]
    command += ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", restarts, "--rdzv-id", "feat"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{ADDRESSES[0]}:29500"]
    command += ["--rdzv-conf", f"is_host={1 - host}", "--local-addr", ADDRESSES[host]]
    environ = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    environ |= {"GLOO_SOCKET_IFNAME": INTERFACES[host]} if interface else {}
    return limited([*command, *words], environ)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _remove() -> None:
    for name in _NAMES:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
