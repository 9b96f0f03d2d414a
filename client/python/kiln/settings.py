"""Which daemons this process asks, and what it shows them: the environment, else ``kiln.toml``.

The file is the one that ``KILN_CONFIG`` names, else ``$XDG_CONFIG_HOME/kiln/kiln.toml``
(``~/.config/kiln/kiln.toml``), else ``/etc/kiln/kiln.toml``; the first that exists, no other. It
has one table, ``[daemon]``, whose keys are those of ``_KEYS``. What the environment names comes
before what the file says, key by key.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from .telling import tell_once

_SYSTEM_FILE = Path("/etc/kiln/kiln.toml")
# A variable of the environment and its key in the file, whose value is a string or a list of strings.
_KEYS = {
    "KILN_ADDR": ("addresses", list),
    "KILN_PUBLIC_KEY": ("public_keys", list),
    "KILN_TLS_CA": ("tls_ca", str),
    "KILN_TLS_CERTIFICATE": ("tls_certificate", str),
    "KILN_TLS_KEY": ("tls_key", str),
    "KILN_TOKEN_FILE": ("token_file", str),
    "KILN_NAMESPACE": ("namespace", str),
    "KILN_URGENCY": ("urgency", str),
}
# What a daemon behind TLS is shown, and told by; all are files.
SHOWN = ("KILN_TLS_CA", "KILN_TLS_CERTIFICATE", "KILN_TLS_KEY", "KILN_TOKEN_FILE")
# A name, an IPv4 address or an IPv6 address in brackets, and a port.
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
# As KilnUrgency numbers them.
_URGENCIES = ("interactive", "background", "prewarm")


class WrongSetting(ValueError):
    """A variable or a word of kiln.toml that is not what is due: every compile's trouble, not one
    graph's."""


class Setting(NamedTuple):
    """A value, a list's with commas, and what errors call the place it came from."""

    value: str
    source: str


def check_own(path: Path, opened: int | None = None) -> None:
    """PermissionError when another user made a folder or file, or may write it: /tmp/kiln-UID may
    have been taken before its user came, and who writes kiln.toml chooses whom to trust. ``opened``:
    the descriptor of a file that is read, whatever lies at its path a moment later."""
    link, found = path.lstat(), path.stat() if opened is None else os.fstat(opened)
    owners = (os.geteuid(), 0)
    if link.st_uid not in owners or found.st_uid not in owners:
        raise PermissionError(errno.EPERM, f"it is user {found.st_uid}'s")
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "other users can write it")


def _file() -> Path | None:
    named = os.environ.get("KILN_CONFIG")
    if named:
        return Path(named)
    own = os.environ.get("XDG_CONFIG_HOME")
    base = Path(own) if own else Path.home() / ".config"
    return next((file for file in (base / "kiln/kiln.toml", _SYSTEM_FILE) if file.exists()), None)


def _read(file: Path) -> dict[str, object]:
    """The file's [daemon]; ValueError names the file and what is wrong with it."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    try:
        with file.open() as opened:
            check_own(file, opened.fileno())
            text = opened.read()
        table = tomllib.loads(text)
    except OSError as error:
        raise WrongSetting(f"{file}: cannot be taken ({error.strerror or error})") from None
    except ValueError as error:  # no TOML, or no text
        raise WrongSetting(f"{file}: {error}") from None
    for name in table:
        if name != "daemon" or not isinstance(table[name], dict):
            raise WrongSetting(f"{file}: found {name!r}, expected [daemon] alone")
    return table.get("daemon", {})


def _text(file: Path, key: str, kind: type, value: object) -> str:
    """A value as the environment would have it."""
    words = value if kind is list and isinstance(value, list) else [value]
    if not all(isinstance(word, str) for word in words):
        due = "a list of strings" if kind is list else "a string"
        raise WrongSetting(f"{file}: {key}: found {value!r}, expected {due}")
    if key in [_KEYS[name][0] for name in SHOWN]:  # a path, seen from the file that names it
        return str(file.absolute().parent / Path(words[0]).expanduser())
    return ",".join(words)


def _from_file(file: Path) -> dict[str, str]:
    """The file's words under the variables' names."""
    found = _read(file)
    known = {key: (variable, kind) for variable, (key, kind) in _KEYS.items()}
    texts = {}
    for key, value in found.items():
        if key not in known:
            raise WrongSetting(f"{file}: found {key!r} in [daemon], expected one of {', '.join(known)}")
        variable, kind = known[key]
        texts[variable] = _text(file, key, kind, value)
    return texts


def setting(variable: str) -> Setting:
    """What is set of a variable of ``_KEYS``, "" when nothing is; ValueError for a file that is
    wrong."""
    named = os.environ.get(variable)
    if named:
        return Setting(named, variable)
    file = _file()
    if file is None:
        return Setting("", variable)
    text = _from_file(file).get(variable, "")
    return Setting(text, f"{file}: {_KEYS[variable][0]}" if text else variable)


def named(variable: str) -> str | None:
    """The value of a setting, None when nothing is set."""
    return setting(variable).value or None


def is_socket(address: str) -> bool:
    """Whether an address is ``unix:/path``, not ``host:port``."""
    return address.startswith("unix:")


def path_of(address: str) -> str:
    """The path of a ``unix:/path``."""
    return address.removeprefix("unix:")


def named_addresses() -> list[str]:
    """The addresses that are set, each ``unix:/path`` or ``host:port``; ValueError for what is
    none."""
    text, source = setting("KILN_ADDR")
    found = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        path = path_of(word)
        match = _HOST_PORT.fullmatch(word)
        if path.startswith("/"):
            found.append(f"unix:{path}")
        elif match and 0 < int(match.group(2)) < 65536:
            found.append(word)
        else:
            raise WrongSetting(f"{source}: found {word!r}, expected unix:/PATH or HOST:PORT")
    return found


def public_keys() -> list[bytes]:
    """The keys that are set; ValueError for what is none."""
    text, source = setting("KILN_PUBLIC_KEY")
    keys = []
    for word in filter(None, map(str.strip, text.split(","))):
        if not re.fullmatch("[0-9A-Fa-f]{64}", word):
            raise WrongSetting(f"{source}: found {word!r}, expected 64 hexadecimal digits")
        keys.append(bytes.fromhex(word))
    return keys


def urgency() -> int:
    """How soon compiles are wanted; ValueError for what is no word of it."""
    text, source = setting("KILN_URGENCY")
    word = text or _URGENCIES[0]
    if word not in _URGENCIES:
        raise WrongSetting(f"{source}: found {word!r}, expected one of {', '.join(_URGENCIES)}")
    return _URGENCIES.index(word)


def _distrust(address: str) -> str:
    return (
        f"{setting('KILN_ADDR').source}: {address}: found no public key for it; set "
        "KILN_PUBLIC_KEY to the key that `compilectl keys list` shows on the daemon's machine"
    )


def check_trusted(address: str) -> None:
    """ValueError for a ``host:port`` without a key that may sign there."""
    if not is_socket(address) and not public_keys():
        raise WrongSetting(_distrust(address))


def trusted_addresses() -> list[str]:
    """The addresses that are set and may be asked. Those that nobody vouches for are told of, once
    each, and left out; ValueError where none but such are set."""
    addresses = named_addresses()
    if public_keys():
        return addresses
    asked = [address for address in addresses if is_socket(address)]
    if addresses and not asked:
        raise WrongSetting(_distrust(addresses[0]))
    for address in addresses:
        if address not in asked:
            tell_once(f"{_distrust(address)}; it is not used")
    return asked
