"""What charon 5.9.8 takes in load-conn, and how it refuses the rest (vici_config.c)."""

from __future__ import annotations

from typing import Any

from cryptography import x509


class RefusedError(Exception):
    """Becomes success=no with this text as errmsg."""


_LISTS = {"local_addrs", "remote_addrs", "proposals", "vips", "pools", "certs", "cacerts", "pubkeys", "groups"}
_LISTS |= {"esp_proposals", "ah_proposals", "local_ts", "remote_ts"}
_CONNECTION_TEXT = (
    "version aggressive pull dscp encap mobike dpd_delay dpd_timeout childless fragmentation send_certreq send_cert "
    "keyingtries unique local_port remote_port reauth_time rekey_time over_time rand_time ppk_id ppk_required if_id_in "
    "if_id_out local_addrs remote_addrs proposals vips pools children"
)
CONNECTION_KEYS = frozenset(_CONNECTION_TEXT.split())
_AUTH_TEXT = "round auth id ca_id certs cacerts pubkeys groups cert_policy eap_id aaa_id xauth_id"
AUTH_KEYS = frozenset(_AUTH_TEXT.split())
_CHILD_TEXT = (
    "updown hostaccess mode policies policies_fwd_out replay_window rekey_time life_time rand_time rekey_bytes "
    "life_bytes rand_bytes rekey_packets life_packets rand_packets dpd_action start_action close_action reqid ipcomp "
    "mark_in mark_in_sa mark_out set_mark_in set_mark_out if_id_in if_id_out interface priority tfc_padding hw_offload "
    "copy_df copy_ecn copy_dscp sha256_96 label label_mode esp_proposals ah_proposals local_ts remote_ts"
)
CHILD_KEYS = frozenset(_CHILD_TEXT.split())
_CHOICES = {
    "version": {"0", "1", "2"},
    "unique": {"no", "never", "keep", "replace"},
    "mobike": {"yes", "no"},
    "mode": {"tunnel", "transport", "transport_proxy", "beet", "pass", "drop"},
    "policies": {"yes", "no"},
    "send_certreq": {"yes", "no"},
    "send_cert": {"always", "never", "ifasked"},
    "hw_offload": {"yes", "no", "auto"},
    "start_action": {"none", "trap", "start", "trap|start"},
    "close_action": {"none", "trap", "start", "trap|start"},
    "dpd_action": {"clear", "none", "trap", "restart", "start"},
}
_ALGORITHMS = {"aes256gcm16", "aes128gcm16", "chacha20poly1305", "prfsha256", "prfsha384", "prfsha512", "esn", "noesn"}
_ALGORITHMS |= {"ecp256", "ecp384", "ecp521", "curve25519", "modp3072", "modp4096"}


def check_options(section: dict[str, Any], known: frozenset[str]) -> None:
    """Refuse what charon's parser refuses; the first fault discards the whole connection."""
    for key, value in section.items():
        if key not in known or isinstance(value, list) != (key in _LISTS):
            raise RefusedError(f"unknown option: {key}, config discarded")
        if not _valid(key, value):
            raise RefusedError(f"invalid value for: {key}, config discarded")


def _valid(key: str, value: Any) -> bool:
    if key in _CHOICES:
        return bool(value.decode() in _CHOICES[key])
    if key.endswith("_time") or key == "dpd_delay":
        text = value.decode()
        return str(text).rstrip("smhd").isdigit()
    if key in {"proposals", "esp_proposals"}:
        return all(part in _ALGORITHMS for item in value for part in item.decode().split("-"))
    if key == "certs":
        return all(_certificate(item) is not None for item in value)
    if key == "cacerts":
        return all(is_ca(item) for item in value)
    if key in {"replay_window", "if_id_in", "if_id_out", "keyingtries"}:
        return bool(value.isdigit())
    return True


def _certificate(data: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        return None


def is_ca(data: bytes) -> bool:
    """Whether these bytes are a CA's certificate."""
    certificate = _certificate(data)
    if certificate is None:
        return False
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except x509.ExtensionNotFound:
        return False
