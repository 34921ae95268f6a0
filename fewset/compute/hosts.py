"""Runs on several machines: addresses that the others cannot reach, and a torchrun that cannot end."""

import os
import socket
import subprocess
from ipaddress import ip_address

_PATIENCE = 5  # seconds that torchrun has to end
# torchrun's own store has no time limit: with a cut link it would wait for a quarter of an hour, and ignore
# SIGTERM.
_WATCH = 'for i in $(seq "$1"); do sleep 1; kill -0 "$0" || exit; done; kill -KILL "$0"'


def several() -> bool:
    """Whether torchrun has started processes on several machines."""
    environ = os.environ
    return environ["WORLD_SIZE"] != environ.get("LOCAL_WORLD_SIZE", environ["WORLD_SIZE"])


def unreachable() -> str | None:
    """Why the machines cannot find each other, and what to do about it."""
    if not several():
        return None
    main, name = os.environ["MASTER_ADDR"], socket.gethostname()
    elsewhere = os.environ.get("GROUP_RANK", "0") != "0" or main.startswith(("localhost", "127."))
    if elsewhere and _is_loopback(main):  # the first machine may well find itself in this way
        return (
            f"the address of the first machine is {main}, by which every machine finds itself; give "
            "torchrun on each machine an address that the others can reach: --local-addr ADDRESS"
        )
    if "GLOO_SOCKET_IFNAME" not in os.environ and _is_loopback(name):
        interfaces = ", ".join(found for _, found in socket.if_nameindex() if found != "lo") or "none"
        return (
            f"the name of this machine, {name}, stands for an address that others cannot reach; set "
            f"GLOO_SOCKET_IFNAME (for GPUs also NCCL_SOCKET_IFNAME) to a network interface: {interfaces}"
        )
    return None


def end_launcher() -> None:
    """End torchrun soon if it does not end by itself, unless it may start the processes again."""
    restarts = [os.environ.get(f"TORCHELASTIC_{name}") for name in ("RESTART_COUNT", "MAX_RESTARTS")]
    if several() and restarts[0] is not None and restarts[0] == restarts[1] and os.name == "posix":
        words = ["sh", "-c", _WATCH, str(os.getppid()), str(_PATIENCE)]
        null = subprocess.DEVNULL
        subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(socket.gethostbyname(host)).is_loopback
    except OSError:  # Gloo takes the loopback address for a name that it cannot resolve
        return True
