"""Secrets that are known by their shape: what stands before the `@` of a URL, access tokens,
private keys, and the password of `-u user:password`.

One text in `profiler/` and in `traces/`, as `masking.py` is.
"""

from __future__ import annotations

import re
from typing import Final

_URL: Final = re.compile(r"(?<!\w)(\w*)://([^\s\"'<>]+?)(?=[\s\"'<>]|$|[,;|]\w{1,20}://)")
# user:password@host without a scheme; an image of a container by its digest is none.
_ACCOUNT: Final = re.compile(
    r"(?<![\w/@:.\-])[\w.\-%+]+:[^\s\"'/@][^\s\"'/]*@(?!sha\d+:)(?=[\w\[])"
)
# Under a name that says so, the password may hold a slash.
_PROXY: Final = re.compile(
    r"""((?i:proxy|url|uri|dsn)\\?["']?(?:[ \t]*[=:][ \t]*|[ \t]+)\\?["']?)"""
    r"""[^\s"'/@:]*:(?!//)[^\s"']*@"""
)
_SCHEME: Final = re.compile(r"(?i)(bearer|basic)(\s+)([\w\-.~+/=]{6,})")
_WORD: Final = re.compile(r"[A-Za-z][a-z]{0,18}[.\-]?")
_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_|gh[pousr]_|github_pat_|gsk_|sk[-_]|xox[abp]-|glpat-|nvapi-)"
    r"([A-Za-z0-9][\w\-]{7,})"
)
_SURE: Final = re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}|\beyJ[\w\-]{8,}(?:\.[\w\-]+)*")
_LONG: Final = 20
# A private key as PEM or OpenPGP has it, over several lines or in one with escapes.
KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
KEY_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# What follows the beginning of a key, and not the mention of one.
_OF_KEY: Final = re.compile(r"(?:\s|\\+[nr])*[A-Za-z0-9+/=]{16}")
# An account in the options of clients (curl, wget, rsync); uid:gid of containers is none.
_ACCOUNT_OPTIONS: Final = r"-[uU]|--(?:proxy-)?user(?:pwd)?|--(?:basic|http)-auth"
_ACCOUNT_OPTION: Final = re.compile(_ACCOUNT_OPTIONS)
_PASSWORD: Final = re.compile(r"[^\s:/\"']*:(?!//)(.+)", re.DOTALL)
_IDS: Final = re.compile(r"\d+:\d+")
_LOGIN: Final = re.compile(
    rf"""(?<![\w\-])(?P<option>{_ACCOUNT_OPTIONS})"""
    r"""(?P<between>=|\s+|\\{0,15}["']\s*,\s*|(?<=-u)(?=[A-Za-z]))(?P<quote>\\{0,15}["'])?"""
    r"""(?P<login>[^\s:/"'=,\\]+:(?!//)(?(quote)(?:[^"'\\]|\\[^"'])+|[^\s"']+))"""
)


def without_shapes(value: str, mask: str) -> str:
    """The text with everything masked that looks like a secret by itself."""
    value = _without_keys(value, mask)
    value = _LOGIN.sub(lambda match: _without_password(match, mask), value)
    value = _URL.sub(lambda match: f"{match[1]}://{_without_account(match, mask)}", value)
    value = _PROXY.sub(rf"\g<1>{mask}@", value)
    value = _ACCOUNT.sub(f"{mask}@", value)
    value = _SURE.sub(mask, value)
    value = _TOKEN.sub(lambda match: mask if _is_token(match[1]) else match[0], value)
    return _SCHEME.sub(
        lambda match: match[0] if _WORD.fullmatch(match[3]) else match[1] + match[2] + mask, value
    )


def login(option: str, value: str) -> str:
    """The password in `value` of an option that takes user:password; empty when there is none."""
    match = _PASSWORD.fullmatch(value)
    if not match or not _ACCOUNT_OPTION.fullmatch(option) or _IDS.fullmatch(value):
        return ""
    return match[1]


def _without_keys(value: str, mask: str) -> str:
    """No private key; one that does not end goes to the end of the text."""
    out, done = [], 0
    ended = True
    while begin := KEY_BEGINS.search(value, done):
        end = KEY_ENDS.search(value, begin.end()) if ended else None
        ended = end is not None
        if end is None and not _OF_KEY.match(value, begin.end()):
            out.append(value[done : begin.end()])  # only spoken of
            done = begin.end()
            continue
        out += [value[done : begin.start()], mask]
        done = end.end() if end else len(value)
    return "".join([*out, value[done:]])


def _without_password(match: re.Match[str], mask: str) -> str:
    if _IDS.fullmatch(match["login"]):
        return match[0]
    user = match["login"].partition(":")[0]
    return f"{match['option']}{match['between']}{match['quote'] or ''}{user}:{mask}"


def _without_account(match: re.Match[str], mask: str) -> str:
    """A password may hold `@` and `/`, though a URL should have them escaped."""
    scheme, rest = match[1].lower(), match[2]
    if "@" not in rest:
        return rest
    place = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, colon, more = place.partition(":")
    is_port = more.isdigit() and scheme in {"http", "https"}
    if colon and "@" not in user and not is_port and not place.startswith("["):
        return f"{mask}@{rest.rpartition('@')[2]}"
    if "@" in place:
        return f"{mask}@{place.rpartition('@')[2]}{rest[len(place) :]}"
    return rest


def _is_token(body: str) -> bool:
    return any(_is_drawn(piece) for piece in re.split(r"[-_]", body))


def _is_drawn(piece: str) -> bool:
    """Whether letters and digits look drawn at random, not written by a person as words."""
    digit = re.search(r"\d", piece) is not None
    if len(piece) < 6:
        return False
    if len(piece) >= _LONG and (digit or re.search("[a-z][A-Z]", piece)):
        return True
    changes = len(re.findall(r"(?<=[A-Za-z])\d|(?<=\d)[A-Za-z]", piece))
    return changes >= 3 or (digit and re.search("[A-Z]", piece) is not None) or piece.endswith("=")
